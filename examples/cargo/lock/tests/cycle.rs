use lock::Lock;

#[test]
fn fills_and_empties() {
    let mut lock = Lock::new(0.5, 2.5);
    lock.fill();
    lock.empty();
    assert_eq!(lock.level(), 0.5);
}
