use super::{Controller, Selection};

#[test]
fn star_enables_all_controllers_that_are_not_named() {
    let of = |words: &[&str]| Selection::parse(words);
    assert_eq!(of(&["*"]), Ok(Selection::default()));
    let without = of(&["*", "-endpoints-controller"]).expect("a selection");
    assert!(!without.contains(Controller::Endpoints));
    assert_eq!(without.len(), Controller::ALL.len() - 1);
    let single = of(&["endpointslice-controller"]).expect("a selection");
    assert!(single.contains(Controller::EndpointSlice));
    assert_eq!(single.len(), 1);
    assert!(of(&["-endpoints-controller"]).expect("a selection").is_empty());
}

#[test]
fn rejects_an_unknown_name() {
    let error = Selection::parse(&["*", "-endpoint"]).expect_err("no such controller");
    assert!(error.to_string().contains("-endpoint"), "{error}");
}

#[test]
fn accepts_the_former_name_of_the_scheduler() {
    let selection = Selection::parse(&["*", "-pod-placement-controller"]).expect("a selection");
    assert!(!selection.contains(Controller::Scheduler));
    let selection = Selection::parse(&["scheduler"]).expect("a selection");
    assert!(selection.contains(Controller::Scheduler));
}
