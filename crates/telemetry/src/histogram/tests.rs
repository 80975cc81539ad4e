use super::*;

#[test]
fn observation_equal_to_a_bound_counts_below_it() {
    let histogram = Histogram::new(&[1.0, 2.0]);
    for value in [0.5, 1.0, 1.5, 9.0] {
        histogram.observe(value);
    }
    assert_eq!(histogram.counts(), [2, 1, 1]);
    assert_eq!((histogram.count(), histogram.sum()), (4, 12.0));
}

#[test]
fn exponential_bounds_grow_by_the_factor() {
    let histogram = Histogram::exponential(2.0, 2.0, 4);
    assert_eq!(histogram.bounds(), [2.0, 4.0, 8.0, 16.0]);
}

#[test]
fn adds_counts_and_sum_of_another_histogram() {
    let (sum, one) = (Histogram::new(&[1.0]), Histogram::new(&[1.0]));
    sum.observe(0.5);
    one.observe(0.25);
    one.observe(3.0);
    sum.add(&one);
    assert_eq!((sum.counts(), sum.sum()), (vec![2, 1], 3.75));
}

#[test]
fn concurrent_observations_are_all_counted() {
    let histogram = Histogram::new(&[1.0]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| histogram.observe(0.5)));
        }
    });
    assert_eq!((histogram.count(), histogram.sum()), (4_000, 2_000.0));
}
