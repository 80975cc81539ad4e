use serde_json::{Value, json};

use super::*;

fn confined(pod: Value, container: Value) -> Result<Confinement, ConfinementError> {
    let pod: Pod = serde_json::from_value(json!({"spec": {"securityContext": pod}})).unwrap();
    let container = serde_json::from_value(container).unwrap();
    let volumes = [("v".to_owned(), PathBuf::from("/vol"))].into();
    confinement(
        &pod,
        &container,
        &volumes,
        &[("P".to_owned(), "pod-1".to_owned())].into(),
    )
}

#[test]
fn the_containers_word_goes_before_the_pods() {
    let both = confined(
        json!({"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4]}),
        json!({"securityContext": {"runAsUser": 5}}),
    )
    .unwrap();
    assert_eq!(
        (both.user, both.group, both.groups),
        (Some(5), Some(2), vec![4, 3])
    );
    assert_eq!(confined(json!(null), json!({})).unwrap(), Confinement::default());
    assert_eq!(
        confined(json!({"runAsNonRoot": true}), json!({})),
        Err(ConfinementError::Root)
    );
    let not_root = json!({"securityContext": {"runAsUser": 7}});
    assert!(confined(json!({"runAsNonRoot": true}), not_root).is_ok());
}

#[test]
fn capabilities_are_added_to_and_dropped_from_the_usual_ones() {
    let bits = |capabilities: Value| {
        let container = json!({"securityContext": {"capabilities": capabilities}});
        confined(json!({}), container).map(|confinement| confinement.capabilities)
    };
    assert_eq!(
        bits(json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]})),
        Ok(Some(1 << 10))
    );
    assert_eq!(bits(json!({"drop": ["cap_chown"]})), Ok(Some(0xa804_25fa)));
    assert_eq!(bits(json!({"add": ["SYS_ADMIN"]})), Ok(Some(0xa824_25fb)));
    assert_eq!(bits(json!(null)), Ok(None));
    let name = "FLY".to_owned();
    assert_eq!(
        bits(json!({"add": ["FLY"]})),
        Err(ConfinementError::Capability { name })
    );
}

#[test]
fn mounts_stay_where_they_belong() {
    let mount = |mount: Value| {
        let container = json!({"volumeMounts": [mount]});
        confined(json!({}), container).map(|mut confinement| confinement.mounts.remove(0))
    };
    let plain = mount(json!({"name": "v", "mountPath": "/data", "subPathExpr": "$(P)/x", "readOnly": true}));
    assert_eq!(
        plain.unwrap(),
        Mount {
            source: "/vol".into(),
            sub_path: "pod-1/x".into(),
            target: "/data".into(),
            is_read_only: true,
        }
    );
    for wrong in [
        json!({"name": "w", "mountPath": "/data"}),
        json!({"name": "v", "mountPath": "data"}),
        json!({"name": "v", "mountPath": "/"}),
        json!({"name": "v", "mountPath": "/a/../b"}),
        json!({"name": "v", "mountPath": "/data", "subPath": "../x"}),
        json!({"name": "v", "mountPath": "/data", "subPath": "/x"}),
    ] {
        assert!(mount(wrong.clone()).is_err(), "{wrong}");
    }
}
