//! Validation of volumes (upstream's `ValidateVolumes` and `validateVolumeSource`).

use std::collections::HashSet;

use serde_json::Value;

use super::references::{
    VOLUME_FIELDS, has_backstep, require, validate_field, validate_file_path, validate_mode,
    validate_resource,
};
use super::validate_choice;
use crate::machinery::decode::quantity_in_thousandths;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::tree::{child, is_set, items, number, text};

/// Sources in the order in which upstream reads them, with their required texts and lists. Further fields of sources
/// that need a plugin are not validated.
static SOURCES: [(&str, &[&str]); 30] = [
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &["volume"]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("storageos", &["volumeName"]),
    ("projected", &[]),
    ("photonPersistentDisk", &["pdID"]),
    ("flexVolume", &["driver"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("vsphereVolume", &["volumePath"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &["reference"]),
];
/// Types of a path of the host.
const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
/// Bounds of the seconds for which a projected token is valid: ten minutes, and upstream's upper bound.
const TOKEN_SECONDS: std::ops::RangeInclusive<i64> = 600..=1 << 32;

/// Validates the volumes of a Pod at `path`, and returns the names of the valid ones. As upstream, an invalid volume does
/// not exist for mounts.
pub(super) fn validate<'a>(errors: &mut FieldErrors, spec: &'a Value, path: &Path) -> HashSet<&'a str> {
    let mut known = HashSet::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let path = path.index(index);
        let (name, at) = (text(volume, "name"), path.child("name"));
        let count = errors.len();
        validate_sources(errors, volume, &path);
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
        } else {
            push_faults(errors, &at, name, names::dns_label(name));
        }
        if known.contains(name) {
            errors.push(FieldError::duplicate(&at, name));
        }
        if errors.len() == count {
            known.insert(name);
        }
    }
    known
}

/// Rejects projected tokens of a Pod without a ServiceAccount.
pub(super) fn validate_tokens(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    if !text(spec, "serviceAccountName").is_empty() {
        return;
    }
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let sources = items(child(volume, "projected"), "sources").iter().enumerate();
        for (at, _) in sources.filter(|(_, source)| is_set(source, "serviceAccountToken")) {
            let path = path.index(index).child("projected").child("sources").index(at);
            let detail = "must not be specified when serviceAccountName is not set";
            errors.push(FieldError::forbidden(&path.child("serviceAccountToken"), detail));
        }
    }
}

fn validate_sources(errors: &mut FieldErrors, volume: &Value, path: &Path) {
    let mut given = SOURCES.iter().filter(|(source, _)| is_set(volume, source));
    if let Some((source, required)) = given.next() {
        let path = path.child(match *source {
            // As upstream.
            "gcePersistentDisk" => "persistentDisk",
            other => other,
        });
        validate_source(errors, child(volume, source), source, required, &path);
    }
    for (source, _) in given {
        let detail = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(&path.child(source), detail));
    }
}

fn validate_source(errors: &mut FieldErrors, tree: &Value, source: &str, required: &[&str], path: &Path) {
    for field in required {
        require(errors, tree, field, path);
    }
    match source {
        "emptyDir" => validate_size(errors, tree, path),
        "hostPath" => validate_host_path(errors, tree, path),
        "secret" | "configMap" => validate_files(errors, tree, path),
        "downwardAPI" => {
            validate_mode(errors, tree, "defaultMode", path);
            validate_downward_files(errors, tree, path);
        }
        "projected" => validate_projected(errors, tree, path),
        "nfs" => {
            let directory = text(tree, "path");
            if !directory.is_empty() && !directory.starts_with('/') {
                let fault = "must be an absolute path";
                errors.push(FieldError::invalid(&path.child("path"), directory, fault));
            }
        }
        "csi" => {
            let driver = text(tree, "driver");
            if !driver.is_empty() {
                let faults = names::dns_subdomain(&driver.to_lowercase());
                push_faults(errors, &path.child("driver"), driver, faults);
            }
        }
        "image" if !text(tree, "pullPolicy").is_empty() => {
            let policies = ["Always", "IfNotPresent", "Never"];
            validate_choice(errors, tree, "pullPolicy", &policies, path);
        }
        _ => {}
    }
}

fn validate_size(errors: &mut FieldErrors, source: &Value, path: &Path) {
    let limit = quantity_in_thousandths(text(source, "sizeLimit"));
    if limit.is_some_and(|limit| limit < 0) {
        let detail = "SizeLimit field must be a valid resource quantity";
        errors.push(FieldError::forbidden(&path.child("sizeLimit"), detail));
    }
}

fn validate_host_path(errors: &mut FieldErrors, source: &Value, path: &Path) {
    let (target, kind) = (text(source, "path"), text(source, "type"));
    if has_backstep(target) {
        let path = path.child("path");
        errors.push(FieldError::invalid(&path, target, "must not contain '..'"));
    }
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(
            &path.child("type"),
            kind,
            &HOST_PATH_TYPES,
        ));
    }
}

/// Validates the modes and files of a source that has keys.
fn validate_files(errors: &mut FieldErrors, source: &Value, path: &Path) {
    validate_mode(errors, source, "defaultMode", path);
    for (index, item) in items(source, "items").iter().enumerate() {
        let path = path.child("items").index(index);
        require(errors, item, "key", &path);
        require(errors, item, "path", &path);
        validate_file_path(errors, text(item, "path"), &path.child("path"));
        validate_mode(errors, item, "mode", &path);
    }
}

/// Validates the files of the downward API. As upstream, their errors have the path of the source.
fn validate_downward_files(errors: &mut FieldErrors, source: &Value, path: &Path) {
    for item in items(source, "items") {
        require(errors, item, "path", path);
        validate_file_path(errors, text(item, "path"), &path.child("path"));
        let (field, resource) = (child(item, "fieldRef"), child(item, "resourceFieldRef"));
        if !field.is_null() {
            validate_field(errors, field, &VOLUME_FIELDS, &path.child("fieldRef"));
            if !resource.is_null() {
                let fault = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", fault));
            }
        } else if !resource.is_null() {
            validate_resource(errors, resource, true, &path.child("resourceFieldRef"));
        } else {
            let detail = "one of fieldRef and resourceFieldRef is required";
            errors.push(FieldError::required(path, detail));
        }
        validate_mode(errors, item, "mode", path);
    }
}

fn validate_projected(errors: &mut FieldErrors, projected: &Value, path: &Path) {
    const KINDS: [&str; 6] = [
        "secret",
        "configMap",
        "downwardAPI",
        "serviceAccountToken",
        "clusterTrustBundle",
        "podCertificate",
    ];
    validate_mode(errors, projected, "defaultMode", path);
    let mut files: HashSet<&str> = HashSet::new();
    for (index, source) in items(projected, "sources").iter().enumerate() {
        let at = path.child("sources").index(index);
        let mut given = KINDS.into_iter().filter(|kind| is_set(source, kind));
        if let Some(kind) = given.next() {
            validate_projection(errors, child(source, kind), kind, &at.child(kind), path);
            validate_distinct_files(errors, child(source, kind), &mut files, path);
        }
        for _ in given {
            let detail = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
}

fn validate_projection(errors: &mut FieldErrors, source: &Value, kind: &str, path: &Path, projected: &Path) {
    match kind {
        "secret" | "configMap" => {
            require(errors, source, "name", path);
            validate_files(errors, source, path);
        }
        "downwardAPI" => validate_downward_files(errors, source, path),
        "serviceAccountToken" => {
            // As upstream: the path of the token has the path of the volume.
            require(errors, source, "path", projected);
            validate_file_path(errors, text(source, "path"), &projected.child("path"));
            validate_token_seconds(errors, source, path);
        }
        _ => {}
    }
}

fn validate_token_seconds(errors: &mut FieldErrors, source: &Value, path: &Path) {
    const FIELD: &str = "expirationSeconds";
    let seconds = number(source, FIELD);
    if !is_set(source, FIELD) || TOKEN_SECONDS.contains(&seconds) {
        return;
    }
    let fault = if seconds < *TOKEN_SECONDS.start() {
        "may not specify a duration less than 10 minutes"
    } else {
        "may not specify a duration larger than 2^32 seconds"
    };
    errors.push(FieldError::invalid(&path.child(FIELD), seconds, fault));
}

/// Checks that the files of all sources of a projected volume have different paths.
fn validate_distinct_files<'a>(
    errors: &mut FieldErrors,
    source: &'a Value,
    files: &mut HashSet<&'a str>,
    path: &Path,
) {
    let own = text(source, "path");
    let listed = items(source, "items").iter().map(|item| text(item, "path"));
    for file in listed.chain([own]).filter(|file| !file.is_empty()) {
        if !files.insert(file) {
            let fault = "conflicting duplicate paths";
            let name = [text(source, "name"), own]
                .into_iter()
                .find(|name| !name.is_empty());
            errors.push(FieldError::invalid(path, name.unwrap_or_default(), fault));
        }
    }
}
