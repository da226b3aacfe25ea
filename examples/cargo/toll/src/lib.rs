//! What a boat pays.

/// The toll for a boat of so many metres.
pub fn toll(metres: u32, night: bool) -> u32 {
    metres * if night { 3 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_day() {
        assert_eq!(toll(10, false), 20);
    }

    #[test]
    fn by_night() {
        assert_eq!(toll(10, true), 30);
    }

    #[test]
    #[ignore = "no rate for dusk yet"]
    fn at_dusk() {}
}
