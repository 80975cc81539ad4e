use super::*;

#[test]
fn variables_omit_binary_data() {
    let object = json!({"data": {"color": "blue"}, "binaryData": {"blob": "AAEC"}});
    let expected = Variables::from([("color".to_owned(), "blue".to_owned())]);
    assert_eq!(variables(&object, SourceKind::ConfigMap), expected);
    let secret = json!({"data": {"color": STANDARD.encode("blue")}});
    assert_eq!(variables(&secret, SourceKind::Secret), expected);
}
