use super::*;

/// Returns a rule with this number of object names.
fn rule(verb: &str, names: usize) -> PolicyRule {
    PolicyRule {
        verbs: vec![verb.to_owned()],
        resource_names: vec!["a".to_owned(); names],
        ..PolicyRule::default()
    }
}

#[test]
fn rules_of_a_review_are_bounded() {
    let rules: Vec<PolicyRule> = (0..10).map(|number| rule(&number.to_string(), 100_000)).collect();
    let rules: Vec<&PolicyRule> = rules.iter().collect();
    assert_eq!(within_bound(&rules).len(), 2);
    assert_eq!(within_bound(&rules[..2]).len(), 2);
    let small = rule("get", 0);
    assert_eq!(within_bound(&[&small; 1_000]).len(), 1_000);
}
