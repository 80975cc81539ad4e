use super::*;

const RATE: u64 = 1_000_000;

fn reservation(bucket: &Arc<TokenBucket>) -> BandwidthReservation {
    BandwidthReservation::new(bucket.clone(), Rate::new(RATE).expect("a limit"))
}

/// Sender that sends as much as it may, message by message.
struct Sender {
    reservation: BandwidthReservation,
    message_bytes: usize,
    passed_bytes: usize,
    at: Duration,
}

impl Sender {
    fn new(bucket: &Arc<TokenBucket>, message_bytes: usize, at: Duration) -> Self {
        Self {
            reservation: reservation(bucket),
            message_bytes,
            passed_bytes: 0,
            at,
        }
    }

    /// Reserves bytes, or sends those that are due.
    fn step(&mut self) {
        let (bytes, due) = self.reservation.reserve(self.message_bytes, self.at);
        if due > self.at {
            self.at = due;
            return;
        }
        self.reservation.consume(bytes);
        self.passed_bytes += bytes;
    }
}

/// Runs all senders until a time, the earliest one first.
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
fn rate_of_zero_means_no_limit() {
    assert_eq!(Rate::new(0), None);
    assert_eq!(Rate::new(125_000).map(Rate::chunk_bytes), Some(2 << 10));
    assert_eq!(Rate::new(u64::MAX).map(Rate::chunk_bytes), Some(64 << 10));
}

#[test]
fn single_sender_gets_the_full_rate() {
    let bucket = Arc::<TokenBucket>::default();
    let mut senders = [Sender::new(&bucket, 1 << 20, Duration::from_secs(5))];
    run(&mut senders, Duration::from_secs(15));
    let passed = senders[0].passed_bytes as u64;
    let burst = RATE / 20;
    let chunk = senders[0].reservation.chunk_bytes_max() as u64;
    assert!(
        (10 * RATE..=10 * RATE + burst + chunk).contains(&passed),
        "{passed}"
    );
}

#[test]
fn senders_without_pauses_get_equal_parts() {
    let bucket = Arc::<TokenBucket>::default();
    // One of them starts long before the others.
    let mut senders = vec![Sender::new(&bucket, 1 << 20, Duration::ZERO)];
    run(&mut senders, Duration::from_secs(20));
    senders[0].passed_bytes = 0;
    senders.extend((0..99).map(|_| Sender::new(&bucket, 1 << 20, Duration::from_secs(20))));
    run(&mut senders, Duration::from_secs(120));
    let passed = || senders.iter().map(|sender| sender.passed_bytes);
    let chunk = senders[0].reservation.chunk_bytes_max();
    let (least, most) = (passed().min().expect("data"), passed().max().expect("data"));
    assert!(most - least <= 2 * chunk, "{least} to {most}");
    let all = passed().sum::<usize>();
    let expected = 100 * RATE as usize;
    assert!(all.abs_diff(expected) <= 101 * chunk, "{all}");
}

#[test]
fn slow_sender_waits_for_one_chunk_of_each_other() {
    let bucket = Arc::<TokenBucket>::default();
    let mut senders: Vec<Sender> = (0..10)
        .map(|_| Sender::new(&bucket, 1 << 20, Duration::ZERO))
        .collect();
    for second in 1..10 {
        let now = Duration::from_secs(second);
        run(&mut senders, now);
        // Each is a new one, like requests of different clients.
        let (bytes, due) = reservation(&bucket).reserve(100, now);
        assert_eq!(bytes, 100);
        let round = Duration::from_millis(10) * 10;
        assert!(due > now && due <= now + 2 * round, "{now:?} {due:?}");
    }
}

#[test]
fn changing_senders_share_the_rate() {
    let bucket = Arc::<TokenBucket>::default();
    let mut last = Duration::ZERO;
    let mut bytes = 0;
    for _ in 0..10_000 {
        let (booked, due) = reservation(&bucket).reserve(1_000, Duration::from_secs(1));
        (last, bytes) = (due, bytes + booked as u64);
    }
    // The last one may pass when all earlier ones are paid for.
    let paid = (last + BURST - Duration::from_secs(1)).as_nanos() as u64;
    assert_eq!(paid, (bytes - 1_000) * 1_000_000_000 / RATE);
}

#[test]
fn excess_datagrams_are_dropped_in_turn() {
    let bucket = Arc::<TokenBucket>::default();
    // Two endless senders, and one with a message now and then.
    let mut flows = [reservation(&bucket), reservation(&bucket), reservation(&bucket)];
    let (mut passed, mut lost_of_the_last) = ([0_u64; 3], 0);
    for step in 0..1_000_000_u64 {
        let now = Duration::from_micros(10 * step);
        for (number, every) in [(0, 10), (1, 50), (2, 10_000)] {
            if step % every != 0 {
                continue;
            }
            if flows[number].admits_datagram(1_000, now) {
                passed[number] += 1_000
            } else {
                lost_of_the_last += u64::from(number == 2)
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
