use super::*;

fn platform(text: &str) -> Platform {
    let mut parts = text.split('/').map(str::to_owned);
    Platform {
        os: parts.next().unwrap_or_default(),
        architecture: parts.next().unwrap_or_default(),
        variant: parts.next().unwrap_or_default(),
    }
}

#[test]
fn platform_of_the_host_is_linux() {
    assert_eq!(Platform::host().os, "linux");
    assert_eq!(Platform::host().preference_of(&Platform::host()), Some(0));
}

#[test]
fn other_systems_and_architectures_cannot_run() {
    let amd64 = platform("linux/amd64");
    for other in [
        "windows/amd64",
        "linux/arm64",
        "linux/amd64/v3",
        "unknown/unknown",
        "",
    ] {
        assert_eq!(amd64.preference_of(&platform(other)), None, "{other}");
    }
}

#[test]
fn exact_variant_is_preferred_to_an_earlier_one() {
    let v7 = platform("linux/arm/v7");
    let preferences = ["v7", "", "v6", "v5", "v8"].map(|variant| {
        let offered = Platform {
            variant: variant.to_owned(),
            ..v7.clone()
        };
        v7.preference_of(&offered)
    });
    assert_eq!(preferences, [Some(0), Some(1), Some(2), Some(3), None]);
    assert_eq!(
        platform("linux/arm64").preference_of(&platform("linux/arm64/v8")),
        Some(1)
    );
}
