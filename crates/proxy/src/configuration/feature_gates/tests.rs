use super::*;

#[test]
fn rejects_gates_without_boolean() {
    assert!("ComponentStatusz=maybe".parse::<FeatureGates>().is_err());
    assert!("ComponentStatusz".parse::<FeatureGates>().is_err());
    assert_eq!("".parse(), Ok(FeatureGates::default()));
}

#[test]
fn lists_gates_without_effect() {
    let gates: FeatureGates = "Other=true, ComponentStatusz=False".parse().expect("valid gates");
    assert_eq!(gates.without_effect(), ["Other"]);
    assert_eq!(gates.without_effect_on_hosts(), ["Other", "ComponentStatusz"]);
}
