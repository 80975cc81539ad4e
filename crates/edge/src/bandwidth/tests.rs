use super::*;

const RATE: u64 = 1_000_000;

fn turns(bucket: &Arc<Bucket>) -> Turns {
    Turns::new(bucket.clone(), Rate::new(RATE).expect("a bound"))
}

/// Someone who sends as much as it may, a message at a time.
struct Sender {
    turns: Turns,
    message_bytes: usize,
    passed_bytes: usize,
    at: Duration,
}

impl Sender {
    fn new(bucket: &Arc<Bucket>, message_bytes: usize, at: Duration) -> Self {
        Self {
            turns: turns(bucket),
            message_bytes,
            passed_bytes: 0,
            at,
        }
    }

    /// Books, or passes on what is due.
    fn step(&mut self) {
        let (bytes, due) = self.turns.want(self.message_bytes, self.at);
        if due > self.at {
            self.at = due;
            return;
        }
        self.turns.passed(bytes);
        self.passed_bytes += bytes;
    }
}

/// Lets all of them send until a time, the earliest one first.
fn run(senders: &mut [Sender], until: Duration) {
    while let Some(next) = senders
        .iter_mut()
        .filter(|sender| sender.at < until)
        .min_by_key(|sender| sender.at)
    {
        next.step();
    }
}

#[test]
fn no_bound_is_no_rate() {
    assert_eq!(Rate::new(0), None);
    assert_eq!(Rate::new(125_000).map(Rate::share), Some(2 << 10));
    assert_eq!(Rate::new(u64::MAX).map(Rate::share), Some(64 << 10));
}

#[test]
fn who_is_alone_gets_all_of_it_and_no_more() {
    let bucket = Arc::<Bucket>::default();
    let mut senders = [Sender::new(&bucket, 1 << 20, Duration::from_secs(5))];
    run(&mut senders, Duration::from_secs(15));
    let passed = senders[0].passed_bytes as u64;
    let burst = RATE / 20;
    let share = senders[0].turns.share() as u64;
    assert!(
        (10 * RATE..=10 * RATE + burst + share).contains(&passed),
        "{passed}"
    );
}

#[test]
fn all_who_want_more_get_the_same() {
    let bucket = Arc::<Bucket>::default();
    // One of them began long before the others.
    let mut senders = vec![Sender::new(&bucket, 1 << 20, Duration::ZERO)];
    run(&mut senders, Duration::from_secs(20));
    senders[0].passed_bytes = 0;
    senders.extend((0..99).map(|_| Sender::new(&bucket, 1 << 20, Duration::from_secs(20))));
    run(&mut senders, Duration::from_secs(120));
    let passed = || senders.iter().map(|sender| sender.passed_bytes);
    let share = senders[0].turns.share();
    let (least, most) = (passed().min().expect("some"), passed().max().expect("some"));
    assert!(most - least <= 2 * share, "{least} to {most}");
    let all = passed().sum::<usize>();
    let expected = 100 * RATE as usize;
    assert!(all.abs_diff(expected) <= 101 * share, "{all}");
}

#[test]
fn who_wants_little_waits_for_one_turn_of_the_others() {
    let bucket = Arc::<Bucket>::default();
    let mut senders: Vec<Sender> = (0..10)
        .map(|_| Sender::new(&bucket, 1 << 20, Duration::ZERO))
        .collect();
    for second in 1..10 {
        let now = Duration::from_secs(second);
        run(&mut senders, now);
        // Each time a new one, as requests of clients that come and go are.
        let (bytes, due) = turns(&bucket).want(100, now);
        assert_eq!(bytes, 100);
        let round = Duration::from_millis(10) * 10;
        assert!(due > now && due <= now + 2 * round, "{now:?} {due:?}");
    }
}

#[test]
fn those_who_come_and_go_stay_within_it_together() {
    let bucket = Arc::<Bucket>::default();
    let mut last = Duration::ZERO;
    let mut bytes = 0;
    for _ in 0..10_000 {
        let (booked, due) = turns(&bucket).want(1_000, Duration::from_secs(1));
        (last, bytes) = (due, bytes + booked as u64);
    }
    // The last one may go when all before it are paid for.
    let paid = (last + BURST - Duration::from_secs(1)).as_nanos() as u64;
    assert_eq!(paid, (bytes - 1_000) * 1_000_000_000 / RATE);
}

#[test]
fn datagrams_beyond_it_are_lost_in_turn() {
    let bucket = Arc::<Bucket>::default();
    // Two that send without end, one that says something now and then.
    let mut flows = [turns(&bucket), turns(&bucket), turns(&bucket)];
    let (mut passed, mut lost_of_the_last) = ([0_u64; 3], 0);
    for step in 0..1_000_000_u64 {
        let now = Duration::from_micros(10 * step);
        for (number, every) in [(0, 10), (1, 50), (2, 10_000)] {
            if step % every != 0 {
                continue;
            }
            match flows[number].admit(1_000, now) {
                true => passed[number] += 1_000,
                false => lost_of_the_last += u64::from(number == 2),
            }
        }
    }
    let all: u64 = passed.iter().sum();
    assert!((9 * RATE..=10 * RATE + RATE / 5).contains(&all), "{passed:?}");
    assert!(
        passed[0].abs_diff(passed[1]) <= (passed[0] + passed[1]) / 10,
        "{passed:?}"
    );
    assert_eq!((passed[2], lost_of_the_last), (100_000, 0));
}
