use super::*;

fn faults(name: &str, amount: &str) -> Vec<String> {
    let mut errors = FieldErrors::new();
    validate(&mut errors, &Path::new("limits").key(name), name, amount);
    errors.iter().map(|error| error.message.clone()).collect()
}

#[test]
fn whole_amounts_beyond_the_range_of_thousandths_are_accepted() {
    for amount in ["1", "2k", "10P", "9E"] {
        assert_eq!(
            faults("example.com/gpu", amount),
            Vec::<String>::new(),
            "{amount}"
        );
    }
}

#[test]
fn fractions_are_rejected_for_resources_with_whole_amounts() {
    for (name, is_rejected) in [("example.com/gpu", true), ("pods", true), ("cpu", false)] {
        assert_eq!(!faults(name, "1500m").is_empty(), is_rejected, "{name}");
    }
}

#[test]
fn negative_amounts_are_rejected() {
    assert_eq!(faults("cpu", "-1").len(), 1);
}
