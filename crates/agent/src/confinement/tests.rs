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
        &[("P", "pod-1"), ("EMPTY", "")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ImageUser::Root,
        Path::new("/no/such/directory"),
        None,
    )
}

#[test]
fn security_context_of_a_container_overrides_that_of_its_pod() {
    let both = confined(
        json!({"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4]}),
        json!({"securityContext": {"runAsUser": 5}}),
    )
    .unwrap();
    assert_eq!(
        (both.user, both.group, both.groups),
        (Some(5), Some(2), vec![4, 3])
    );
    assert_eq!(
        confined(json!({"runAsNonRoot": true}), json!({})),
        Err(ConfinementError::Root)
    );
    let not_root = json!({"securityContext": {"runAsUser": 7}});
    assert!(confined(json!({"runAsNonRoot": true}), not_root).is_ok());
}

#[test]
fn rejects_ids_that_the_kernel_interprets_as_no_change() {
    let error = confined(json!({"runAsNonRoot": true, "runAsUser": u32::MAX}), json!({}));
    let (field, id) = ("runAsUser", u32::MAX);
    assert_eq!(error, Err(ConfinementError::HighId { field, id }));
    let error = confined(json!({"supplementalGroups": [u32::MAX]}), json!({}));
    let field = "supplementalGroups";
    assert_eq!(error, Err(ConfinementError::HighId { field, id }));
}

#[test]
fn unprivileged_container_has_default_privileges() {
    let default = confined(json!(null), json!({})).unwrap();
    assert_eq!(default.capabilities, Some(0xa804_25fb));
    assert!(default.has_no_new_privileges && !default.is_privileged);
    assert_eq!(default.seccomp, Seccomp::RuntimeDefault);
    let privileged = json!({"securityContext": {"privileged": true, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}}});
    let privileged = confined(json!(null), privileged).unwrap();
    assert_eq!(privileged.capabilities, None);
    assert!(!privileged.has_no_new_privileges && privileged.is_privileged);
    assert_eq!(privileged.seccomp, Seccomp::Unconfined);
    let escalating = json!({"securityContext": {"allowPrivilegeEscalation": true}});
    assert!(!confined(json!(null), escalating).unwrap().has_no_new_privileges);
    let unmasked = json!({"securityContext": {"procMount": "Unmasked"}});
    assert_eq!(confined(json!(null), unmasked), Err(ConfinementError::ProcMount));
}

#[test]
fn container_seccomp_profile_overrides_pod() {
    let of = |pod: Value, container: Value| {
        let container = json!({"securityContext": {"seccompProfile": container}});
        confined(json!({"seccompProfile": pod}), container).map(|confinement| confinement.seccomp)
    };
    let (unconfined, default) = (json!({"type": "Unconfined"}), json!({"type": "RuntimeDefault"}));
    assert_eq!(of(unconfined.clone(), json!(null)), Ok(Seccomp::Unconfined));
    assert_eq!(of(unconfined, default), Ok(Seccomp::RuntimeDefault));
    let local = |name: &str| {
        of(
            json!(null),
            json!({"type": "Localhost", "localhostProfile": name}),
        )
    };
    for invalid in ["../x.json", "/etc/passwd", ""] {
        let name = invalid.to_owned();
        assert_eq!(
            local(invalid),
            Err(ConfinementError::Seccomp(SeccompError::Name { name }))
        );
    }
    let missing = local("none.json").unwrap_err().to_string();
    assert_eq!(
        missing,
        "seccompProfile: /no/such/directory/none.json: entity not found"
    );
    assert!(of(json!(null), json!({"type": "Other"})).is_err());
}

#[test]
fn rejects_mounts_outside_of_volumes() {
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
            is_id_mapped: false,
        }
    );
    for invalid in [
        json!({"name": "w", "mountPath": "/data"}),
        json!({"name": "v", "mountPath": "data"}),
        json!({"name": "v", "mountPath": "/"}),
        json!({"name": "v", "mountPath": "/a/../b"}),
        json!({"name": "v", "mountPath": "/data", "subPath": "../x"}),
        json!({"name": "v", "mountPath": "/data", "subPath": "/x"}),
    ] {
        assert!(mount(invalid.clone()).is_err(), "{invalid}");
    }
}

#[test]
fn variables_of_a_sub_path_need_a_value() {
    let mount = |expression: &str| {
        let mount = json!({"name": "v", "mountPath": "/data", "subPathExpr": expression});
        let confinement = confined(json!({}), json!({"volumeMounts": [mount]}));
        confinement.map(|mut confinement| confinement.mounts.remove(0).sub_path)
    };
    assert_eq!(
        mount("$$(UNKNOWN)/$(P)").unwrap(),
        PathBuf::from("$(UNKNOWN)/pod-1")
    );
    let missing = mount("$(UNKNOWN)/$(P)/$(EMPTY)").unwrap_err().to_string();
    assert_eq!(
        missing,
        "volumeMounts: subPathExpr: missing value for EMPTY, UNKNOWN"
    );
}

#[test]
fn agent_filled_volumes_are_read_only() {
    let volumes = json!([{"name": "c", "configMap": {"name": "c"}}, {"name": "s", "secret": {"secretName": "s"}},
        {"name": "p", "projected": {"sources": []}}, {"name": "d", "downwardAPI": {"items": []}},
        {"name": "e", "emptyDir": {}}]);
    let pod: Pod = serde_json::from_value(json!({"spec": {"volumes": volumes}})).unwrap();
    let volumes = ["c", "s", "p", "d", "e"].map(|name| (name.to_owned(), PathBuf::from("/vol")));
    let mounts =
        json!(["c", "s", "p", "d", "e"].map(|name| json!({"name": name, "mountPath": format!("/{name}")})));
    let container = serde_json::from_value(json!({"volumeMounts": mounts})).unwrap();
    let confinement = confinement(
        &pod,
        &container,
        &volumes.into(),
        &Variables::new(),
        ImageUser::Root,
        Path::new(""),
        None,
    )
    .unwrap();
    let read_only: Vec<bool> = confinement
        .mounts
        .iter()
        .map(|mount| mount.is_read_only)
        .collect();
    assert_eq!(read_only, [true, true, true, true, false]);
}

#[test]
fn image_user_applies_unless_pod_names_one() {
    let with = |pod: Value, user| {
        let pod: Pod = serde_json::from_value(json!({"spec": {"securityContext": pod}})).unwrap();
        let (volumes, variables) = (BTreeMap::new(), Variables::new());
        let confinement = confinement(
            &pod,
            &Container::default(),
            &volumes,
            &variables,
            user,
            Path::new(""),
            None,
        );
        confinement.map(|confinement| (confinement.user, confinement.group))
    };
    let must_not_be_root = || json!({"runAsNonRoot": true});
    let unprivileged = ImageUser::Unprivileged(65_532);
    assert_eq!(
        with(must_not_be_root(), unprivileged),
        Ok((Some(65_532), Some(65_532)))
    );
    assert_eq!(with(json!({"runAsUser": 7}), unprivileged), Ok((Some(7), None)));
    assert_eq!(with(json!({"runAsUser": 0}), unprivileged), Ok((Some(0), None)));
    assert_eq!(with(must_not_be_root(), ImageUser::OnlyMapped), Ok((None, None)));
    assert_eq!(
        with(must_not_be_root(), ImageUser::Root),
        Err(ConfinementError::Root)
    );
}

/// Confinement in a Pod with `hostUsers: false` and a volume of each kind of owner.
fn confined_with_users(
    pod: Value,
    container: Value,
    users: Option<PodUsers>,
) -> Result<Confinement, ConfinementError> {
    let volumes = json!([{"name": "h", "hostPath": {"path": "/srv"}}, {"name": "e", "emptyDir": {}}]);
    let spec = json!({"hostUsers": false, "securityContext": pod, "volumes": volumes});
    let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
    let mounts = json!(["h", "e"].map(|name| json!({"name": name, "mountPath": format!("/{name}")})));
    let container = json!({"securityContext": container, "volumeMounts": mounts});
    let volumes = ["h", "e"].map(|name| (name.to_owned(), PathBuf::from("/vol")));
    confinement(
        &pod,
        &serde_json::from_value(container).unwrap(),
        &volumes.into(),
        &Variables::new(),
        ImageUser::Root,
        Path::new(""),
        users,
    )
}

fn pod_users(volumes: VolumeOwners) -> Option<PodUsers> {
    let ids = 131_072.try_into().unwrap();
    Some(PodUsers { ids, volumes })
}

#[test]
fn requires_user_namespace_of_pod() {
    assert_eq!(
        confined_with_users(json!({}), json!({}), None),
        Err(ConfinementError::HostUsers)
    );
    let users = pod_users(VolumeOwners::IdMapped);
    let confinement = confined_with_users(json!({}), json!({}), users).unwrap();
    assert_eq!(confinement.users.map(u32::from), Some(131_072));
    let unmasked = json!({"procMount": "Unmasked"});
    let confinement = confined_with_users(json!({}), unmasked, users).unwrap();
    assert!(confinement.has_unmasked_proc && !confinement.is_privileged);
}

#[test]
fn host_paths_are_always_id_mapped() {
    let mapped = |owners| {
        let confinement = confined_with_users(json!({}), json!({}), pod_users(owners)).unwrap();
        let mounts = confinement.mounts.into_iter();
        mounts.map(|mount| mount.is_id_mapped).collect::<Vec<_>>()
    };
    assert_eq!(mapped(VolumeOwners::IdMapped), [true, true]);
    assert_eq!(mapped(VolumeOwners::Range), [true, false]);
}

#[test]
fn rejects_ids_beyond_user_namespace() {
    let users = pod_users(VolumeOwners::IdMapped);
    for (pod, container, field) in [
        (json!({"runAsUser": 65_536}), json!({}), "runAsUser"),
        (json!({}), json!({"runAsUser": 65_536}), "runAsUser"),
        (json!({"runAsGroup": 65_536}), json!({}), "runAsGroup"),
        (json!({"fsGroup": 65_536}), json!({}), "fsGroup"),
        (
            json!({"supplementalGroups": [1, 65_536]}),
            json!({}),
            "supplementalGroups",
        ),
    ] {
        let id = 65_536;
        assert_eq!(
            confined_with_users(pod, container, users),
            Err(ConfinementError::Id { field, id })
        );
    }
    assert!(confined_with_users(json!({"runAsUser": 65_535}), json!({}), users).is_ok());
}
