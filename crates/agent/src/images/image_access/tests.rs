use super::*;

fn digest(content: &str) -> Digest {
    let hex = format!("{:0>64}", content.len());
    format!("sha256:{hex}").parse().expect("a digest")
}

fn reference(name: &str) -> Reference {
    name.parse().expect("a name")
}

fn with_credentials<'a>(digest: &'a Digest, before: Option<&'a Digest>) -> Option<SuccessfulPull<'a>> {
    Some(SuccessfulPull {
        digest,
        before,
        has_credentials: true,
    })
}

#[test]
fn images_pulled_with_credentials_are_for_their_namespaces() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("access.json");
    let access = ImageAccess::open(path.clone());
    let (private, name) = (digest("a"), reference("registry.example/team/app:1"));
    let present = BTreeSet::from([private.to_string()]);
    access.begin(&name);
    assert!(!access.permits("team", &name, &private), "the pull has not ended");
    access.finish("team", &name, with_credentials(&private, None), Some(&present));
    // The next agent has the same entries.
    for access in [access, ImageAccess::open(path)] {
        assert!(access.permits("team", &name, &private));
        assert!(!access.permits("other", &name, &private));
        let by_digest = reference(&format!("registry.example/team/app@{private}"));
        assert!(!access.permits("other", &by_digest, &private));
        assert!(access.permits("other", &name, &digest("loaded by an administrator")));
    }
}

#[test]
fn pulls_without_credentials_and_former_images_are_for_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let access = ImageAccess::open(directory.path().join("access.json"));
    let (first, second) = (digest("a"), digest("ab"));
    let name = reference("registry.example/team/app:1");
    let present = BTreeSet::from([&first, &second].map(ToString::to_string));
    // An administrator loaded it before.
    access.finish(
        "team",
        &name,
        with_credentials(&first, Some(&first)),
        Some(&present),
    );
    assert!(access.permits("other", &name, &first));
    // The name has another image now.
    access.finish(
        "team",
        &name,
        with_credentials(&second, Some(&first)),
        Some(&present),
    );
    assert!(!access.permits("other", &name, &second));
    let without = SuccessfulPull {
        digest: &second,
        before: Some(&second),
        has_credentials: false,
    };
    access.finish("other", &name, Some(without), Some(&present));
    assert!(access.permits("third", &name, &second));
}

#[test]
fn failed_pull_and_removed_image_leave_no_entry() {
    let directory = tempfile::tempdir().expect("a directory");
    let access = ImageAccess::open(directory.path().join("access.json"));
    let (first, second) = (digest("a"), digest("ab"));
    let name = reference("registry.example/team/app:1");
    access.begin(&name);
    access.finish("team", &name, None, None);
    assert!(access.permits("other", &name, &first));
    let present = BTreeSet::from([first.to_string()]);
    access.finish("team", &name, with_credentials(&first, None), Some(&present));
    let present = BTreeSet::from([second.to_string()]);
    access.finish("team", &name, with_credentials(&second, None), Some(&present));
    assert_eq!(access.lock().namespaces.len(), 1);
}

#[test]
fn images_are_for_no_other_namespace_after_a_loss_of_entries() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("access.json");
    fs::write(&path, "{").expect("a file");
    let access = ImageAccess::open(path.clone());
    let (image, name) = (digest("a"), reference("registry.example/team/app:1"));
    assert!(!access.permits("team", &name, &image));
    let without = SuccessfulPull {
        digest: &image,
        before: Some(&image),
        has_credentials: false,
    };
    access.finish("team", &name, Some(without), None);
    access.finish("second", &name, with_credentials(&image, Some(&image)), None);
    // The next agent reads the file, but the entries stay lost.
    for access in [access, ImageAccess::open(path.clone())] {
        assert!(access.permits("team", &name, &image));
        assert!(access.permits("second", &name, &image));
        assert!(!access.permits("other", &name, &image));
        assert!(!access.permits("team", &name, &digest("loaded before")));
    }
    fs::remove_file(&path).expect("a removed file");
    let access = ImageAccess::open(path);
    assert!(access.permits("other", &name, &image));
}
