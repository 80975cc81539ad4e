use super::*;

#[test]
fn a_bound_belongs_to_the_bucket_below_it() {
    let mut histogram = Histogram::new(Box::new([1.0, 2.0]));
    for value in [0.5, 1.0, 1.5, 9.0] {
        histogram.observe(value);
    }
    assert_eq!(histogram.counts(), [2, 1, 1]);
    assert_eq!((histogram.count(), histogram.sum()), (4, 12.0));
}

#[test]
fn exponential_bounds_grow_by_their_factor() {
    let histogram = Histogram::exponential(2.0, 2.0, 4);
    assert_eq!(histogram.bounds(), [2.0, 4.0, 8.0, 16.0]);
}
