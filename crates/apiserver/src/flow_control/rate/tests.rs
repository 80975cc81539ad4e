use std::time::Duration;

use super::*;

#[test]
fn a_user_has_a_rate_of_their_own() {
    let mut rates = Rates::new(10);
    let (ann, bob) = (UserKey(1), UserKey(2));
    let begin = Instant::now();
    assert_eq!((0..100).filter(|_| rates.take_one(ann, begin)).count(), 20);
    assert!(rates.take_one(bob, begin));
    let later = begin + Duration::from_secs(1);
    assert_eq!((0..100).filter(|_| rates.take_one(ann, later)).count(), 10);
}

#[test]
fn without_a_limit_nothing_is_kept() {
    let mut rates = Rates::new(0);
    assert!((0..1_000).all(|user| rates.take_one(UserKey(user), Instant::now())));
    assert!(rates.users.is_empty());
}

#[test]
fn users_that_ask_for_little_are_forgotten() {
    let mut rates = Rates::new(1);
    let begin = Instant::now();
    for number in 0..USERS_MAX as u64 {
        assert!(rates.take_one(UserKey(number), begin));
    }
    let another = UserKey(u64::MAX);
    assert!(rates.take_one(another, begin + Duration::from_secs(10)));
    assert_eq!(rates.users.len(), 1);
}
