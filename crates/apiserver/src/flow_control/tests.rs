use std::time::Duration;

use super::*;

fn user(name: &str) -> Identity {
    Identity {
        user: name.to_owned(),
        ..Identity::default()
    }
}

fn limits(at_a_time: u32, per_second: u32) -> RequestLimits {
    RequestLimits {
        reads_at_a_time: at_a_time,
        writes_at_a_time: at_a_time,
        per_user_per_second: per_second,
    }
}

#[test]
fn a_user_has_a_rate_of_their_own() {
    let flow = FlowControl::new(limits(0, 10));
    let begin = Instant::now();
    let enters = |name: &str, now| flow.enter(&user(name), Load::Read, now).is_ok();
    let burst = (0..100).filter(|_| enters("ann", begin)).count();
    assert_eq!(burst, 20);
    assert!(enters("bob", begin));
    let later = begin + Duration::from_secs(1);
    assert_eq!((0..100).filter(|_| enters("ann", later)).count(), 10);
    let refused = flow.enter(&user("ann"), Load::Watch, later).unwrap_err();
    assert_eq!(refused.code(), 429);
}

#[test]
fn so_many_at_a_time() {
    let flow = FlowControl::new(limits(2, 0));
    let now = Instant::now();
    let enter = |load| flow.enter(&user("ann"), load, now);
    let (first, _second) = (enter(Load::Write).unwrap(), enter(Load::Write).unwrap());
    assert_eq!(enter(Load::Write).unwrap_err().reason(), "TooManyRequests");
    assert!(enter(Load::Read).is_ok());
    assert!(enter(Load::Watch).is_ok());
    let admin = Identity {
        groups: vec!["system:masters".to_owned()],
        ..user("admin")
    };
    assert!(flow.enter(&admin, Load::Write, now).is_ok());
    drop(first);
    assert!(enter(Load::Write).is_ok());
}

#[test]
fn users_that_ask_for_little_are_forgotten() {
    let flow = FlowControl::new(limits(0, 1));
    let begin = Instant::now();
    for number in 0..USERS_MAX {
        assert!(flow.takes_one(&number.to_string(), begin));
    }
    assert!(flow.takes_one("another", begin + Duration::from_secs(10)));
    assert_eq!(flow.users.lock().unwrap().len(), 1);
}
