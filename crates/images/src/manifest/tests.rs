use serde_json::{Value, json};

use super::*;

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

fn parse(document: &Value) -> Result<Document, ManifestError> {
    Document::parse(document.to_string().as_bytes())
}

fn descriptor(media_type: &str) -> Value {
    json!({"mediaType": media_type, "digest": DIGEST, "size": 2})
}

fn image(layers: usize) -> Value {
    json!({
        "schemaVersion": 2,
        "config": descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": vec![descriptor(LAYER); layers],
    })
}

fn entry(platform: Value) -> Value {
    json!({"mediaType": ACCEPTED_MEDIA_TYPES[0], "digest": DIGEST, "size": 2, "platform": platform})
}

#[test]
fn fields_decide_about_the_kind() {
    assert!(matches!(parse(&image(2)), Ok(Document::Manifest(manifest)) if manifest.layers.len() == 2));
    let index = json!({"schemaVersion": 2, "manifests": []});
    assert!(matches!(parse(&index), Ok(Document::Index(_))));
    let mut both = image(1);
    both["manifests"] = json!([]);
    assert!(matches!(parse(&both), Err(ManifestError::Ambiguous)));
    assert!(matches!(
        parse(&json!({"schemaVersion": 2})),
        Err(ManifestError::Neither)
    ));
}

#[test]
fn rejects_manifests_without_an_image() {
    let mut chart = image(1);
    chart["config"]["mediaType"] = json!("application/vnd.cncf.helm.config.v1+json");
    assert!(matches!(parse(&chart), Err(ManifestError::NotAnImage(_))));
    for media_type in [
        "application/vnd.oci.image.layer.v1.tar+encrypted",
        "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        "text/plain",
    ] {
        let mut image = image(1);
        image["layers"][0]["mediaType"] = json!(media_type);
        assert!(
            matches!(parse(&image), Err(ManifestError::LayerMediaType { .. })),
            "{media_type}"
        );
    }
    assert!(matches!(
        parse(&json!({"schemaVersion": 1, "fsLayers": []})),
        Err(ManifestError::Schema1)
    ));
    let mut negative = image(1);
    negative["layers"][0]["size"] = json!(-1);
    assert!(matches!(parse(&negative), Err(ManifestError::Form(_))));
}

#[test]
fn rejects_more_than_the_limits() {
    assert!(parse(&image(LAYERS_MAX)).is_ok());
    assert!(matches!(
        parse(&image(LAYERS_MAX + 1)),
        Err(ManifestError::Layers(_))
    ));
    let entries = vec![entry(json!({"os": "linux", "architecture": "amd64"})); INDEX_ENTRIES_MAX + 1];
    assert!(matches!(
        parse(&json!({"manifests": entries})),
        Err(ManifestError::IndexEntries(_))
    ));
    let long = vec![b' '; MANIFEST_BYTES_MAX as usize + 1];
    assert!(matches!(Document::parse(&long), Err(ManifestError::TooLong)));
}

#[test]
fn long_layers_are_refused() {
    let mut long_layer = image(1);
    long_layer["layers"][0]["size"] = json!(ARCHIVE_BYTES_MAX + 1);
    let error = parse(&long_layer).expect_err("a long layer");
    assert!(matches!(error, ManifestError::LayerBytes { .. }), "{error}");
    let mut long_image = image(3);
    for layer in 0..3 {
        long_image["layers"][layer]["size"] = json!(IMAGE_BYTES_MAX / 2);
    }
    let error = parse(&long_image).expect_err("a long image");
    assert!(matches!(error, ManifestError::ImageBytes(_)), "{error}");
}

#[test]
fn texts_of_a_manifest_are_shortened_in_errors() {
    let mut chart = image(1);
    chart["config"]["mediaType"] = json!(format!("\u{1b}{}", "x".repeat(10_000)));
    let error = parse(&chart).expect_err("another media type").to_string();
    assert!(error.len() < 400, "{} bytes", error.len());
    assert!(!error.contains("\\u{1b}"), "{error}");
}

#[test]
fn index_choice_takes_the_platform_and_names_the_others() {
    let platform = |architecture: &str| json!({"os": "linux", "architecture": architecture});
    let mut entries = vec![
        entry(json!({"os": "unknown", "architecture": "unknown"})),
        entry(platform("arm64")),
    ];
    entries[1]["size"] = json!(77);
    let Ok(Document::Index(entries)) = parse(&json!({ "manifests": entries })) else {
        panic!("not an index");
    };
    let arm64 = Platform {
        os: "linux".to_owned(),
        architecture: "arm64".to_owned(),
        variant: "v8".to_owned(),
    };
    assert_eq!(choose(&entries, &arm64).expect("an image").size, 77);
    let amd64 = Platform {
        architecture: "amd64".to_owned(),
        variant: String::new(),
        ..arm64
    };
    let error = choose(&entries, &amd64).expect_err("no image");
    assert_eq!(
        error.to_string(),
        "no image for linux/amd64; the index has unknown/unknown, linux/arm64"
    );
}
