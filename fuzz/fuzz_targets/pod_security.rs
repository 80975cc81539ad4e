//! Pod Security Standards: evaluates every decoded Pod at every level and version. A stricter level has at least as
//! many findings. Configurations and labels are parsed.
#![no_main]

use api::decode::{Format, decode};
use api::pod_security::{
    Configuration, Level, LevelVersion, PodView, Policy, Version, evaluate, is_significant_update, policy_of_labels,
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// First minor version of Kubernetes after the newest one with a check.
const MINOR_VERSIONS_END: u64 = 37;

fuzz_target!(|input: &[u8]| {
    if let Ok(value) = serde_json::from_slice::<Value>(input) {
        policy_of_labels(&value, Policy::PRIVILEGED);
        Configuration::read(value).ok();
    }
    let Some(kind) = api::kind::find("", "v1", "pods") else { return };
    let Ok(decoded) = decode(input, Format::Json, kind) else { return };
    let mut pod = decoded.object;
    api::pod::default_pod_on_write(&mut pod);
    assert!(!is_significant_update(&pod, &pod), "an unchanged Pod is a significant update");
    let view = PodView::new(&pod);
    let versions = (0..MINOR_VERSIONS_END).map(Version::Minor).chain([Version::Latest]);
    for version in versions {
        let at = |level| evaluate(LevelVersion { level, version }, &view);
        let (baseline, restricted) = (at(Level::Baseline), at(Level::Restricted));
        assert!(at(Level::Privileged).is_allowed());
        // Restricted checks that exempt Windows Pods replace baseline checks, as upstream.
        let is_windows = pod["spec"]["os"]["name"] == "windows";
        assert!(is_windows || baseline.is_allowed() || !restricted.is_allowed(), "{}", baseline.details());
        assert!(baseline.is_allowed() == baseline.details().is_empty());
    }
});
