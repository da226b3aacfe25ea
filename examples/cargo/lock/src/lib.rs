//! A canal lock.

/// Where the water stands, in metres.
///
/// ```
/// let mut lock = lock::Lock::new(1.0, 4.0);
/// lock.fill();
/// assert_eq!(lock.level(), 4.0);
/// ```
pub struct Lock {
    lower: f64,
    upper: f64,
    level: f64,
}

impl Lock {
    pub fn new(lower: f64, upper: f64) -> Self {
        assert!(lower <= upper, "the upper level lies below the lower");
        Lock { lower, upper, level: lower }
    }

    pub fn fill(&mut self) {
        self.level = self.upper;
    }

    pub fn empty(&mut self) {
        self.level = self.lower;
    }

    pub fn level(&self) -> f64 {
        self.level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_low() {
        assert_eq!(Lock::new(1.0, 4.0).level(), 1.0);
    }

    #[test]
    #[should_panic(expected = "below the lower")]
    fn refuses_levels_the_wrong_way_round() {
        Lock::new(4.0, 1.0);
    }
}
