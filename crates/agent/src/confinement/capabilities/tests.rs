use serde_json::{Value, json};

use super::*;

fn bits(capabilities: Value) -> Result<u64, UnknownCapability> {
    CapabilityBits::of(&serde_json::from_value(capabilities).unwrap()).map(|bits| bits.0)
}

#[test]
fn adds_and_drops_from_defaults() {
    assert_eq!(bits(json!({})), Ok(0xa804_25fb));
    assert_eq!(
        bits(json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})),
        Ok(1 << 10)
    );
    assert_eq!(bits(json!({"drop": ["cap_chown"]})), Ok(0xa804_25fa));
    assert_eq!(bits(json!({"add": ["SYS_ADMIN"]})), Ok(0xa824_25fb));
    let name = "FLY".to_owned();
    assert_eq!(bits(json!({"add": ["FLY"]})), Err(UnknownCapability { name }));
}

#[test]
fn names_map_to_bits() {
    assert!(CapabilityBits(1 << 21).has("SYS_ADMIN") && !CapabilityBits(1 << 21).has("SYS_BOOT"));
    assert!(CapabilityBits::ALL.has("CHECKPOINT_RESTORE"));
}
