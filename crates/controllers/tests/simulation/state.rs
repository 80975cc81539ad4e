//! The state of the modelled server and its verbs.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::invariants::Invariants;
use crate::patch::patched;
use crate::server::{Faults, Key, Objects, Query, Sender};
use crate::workloads;

/// State of the server.
pub(crate) struct State {
    pub revision: u64,
    /// The oldest revision from which a watch can start.
    pub compacted: u64,
    pub objects: Objects,
    pub log: Vec<Change>,
    pub random: fastrand::Rng,
    pub faults: Faults,
    pub logs_requests: bool,
    pub requests: Vec<String>,
    pub writes: usize,
    pub invariants: Invariants,
    /// True if only the holder of the lease may write.
    pub has_election: bool,
    /// True if the bounds of rollouts are checked.
    pub is_strict: bool,
    /// True if agents exist, so that deleted Pods have a grace period.
    pub ends_pods_late: bool,
    /// The version of each object in the last response to an instance's own write.
    pub own: BTreeMap<(String, Key), u64>,
}

/// A change that watches deliver.
#[derive(Clone)]
pub(crate) struct Change {
    pub revision: u64,
    pub kind: &'static str,
    pub plural: String,
    pub object: Value,
}

impl State {
    /// Creates the state without objects.
    pub(crate) fn new(seed: u64, faults: Faults, logs_requests: bool) -> Self {
        Self {
            revision: 1,
            compacted: 0,
            objects: Objects::new(),
            log: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            faults,
            logs_requests,
            requests: Vec::new(),
            writes: 0,
            invariants: Invariants::default(),
            has_election: false,
            is_strict: false,
            ends_pods_late: false,
            own: BTreeMap::new(),
        }
    }

    /// Returns the version in the last response to a write of `who` at a path.
    pub(crate) fn known(&self, writer: &str, path: &str) -> u64 {
        self.own
            .get(&(writer.to_owned(), parts(path)))
            .copied()
            .unwrap_or(0)
    }

    /// Returns a random duration up to `most`, usually a short one.
    pub(crate) fn pause(&mut self, most: Duration) -> Duration {
        let share = self.random.f64();
        most.mul_f64(share * share * share)
    }

    /// Handles a request other than a watch.
    pub(crate) fn handle(&mut self, writer: &Sender, request: &Request<Bytes>) -> (u16, Value) {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let (plural, namespace, name) = parts(&path);
        let key = (plural.clone(), namespace.clone(), name.clone());
        let line = format!("{} {method} {path} at {}", writer.name, self.revision);
        if self.logs_requests {
            println!("{:?} {line} {body}", Instant::now());
        }
        self.requests.push(line);
        if method == Method::GET && name.is_empty() {
            let query = Query::of(request.uri().query().unwrap_or_default());
            let items = self.objects.iter().filter(|((p, n, _), object)| {
                *p == plural && (namespace.is_empty() || *n == namespace) && query.selects(object)
            });
            let items: Vec<&Value> = items.map(|(_, object)| object).collect();
            let meta = json!({"resourceVersion": self.revision.to_string()});
            return (200, json!({"metadata": meta, "items": items}));
        }
        if method == Method::GET {
            return match self.objects.get(&key) {
                Some(object) => (200, object.clone()),
                None => status(404, "NotFound"),
            };
        }
        if plural == "events" {
            return (201, body);
        }
        if plural != "leases" {
            self.check_leader(&writer.name, &key);
        }
        let answer = match method {
            Method::POST => self.create(&plural, &namespace, body),
            Method::PUT => self.replace(writer, &key, body),
            Method::PATCH => self.patch(writer, &key, body, is_strategic(request)),
            _ => self.delete_for(writer, &key, &body),
        };
        if answer.0 < 300 && plural != "leases" {
            self.writes += 1;
        }
        answer
    }

    /// Two instances must never both write.
    fn check_leader(&mut self, writer: &str, key: &Key) {
        let lease = ("leases".to_owned(), "kube-system".to_owned(), "lock".to_owned());
        let holder = self
            .objects
            .get(&lease)
            .map(|lease| lease["spec"]["holderIdentity"].clone());
        if self.has_election && holder.as_ref().and_then(Value::as_str) != Some(writer) {
            self.invariants
                .violated(format!("{writer} wrote {key:?} while {holder:?} is the leader"));
        }
    }

    fn create(&mut self, plural: &str, namespace: &str, mut object: Value) -> (u16, Value) {
        let meta = &mut object["metadata"];
        if meta["name"].is_null() {
            let prefix = meta["generateName"].as_str().unwrap_or_default();
            meta["name"] = format!("{prefix}{:05x}", self.random.u32(..)).into();
        }
        let name = meta["name"].as_str().unwrap_or_default().to_owned();
        let key = (plural.to_owned(), namespace.to_owned(), name);
        if self.objects.contains_key(&key) {
            return status(409, "AlreadyExists");
        }
        if self.is_strict && plural == "pods" {
            let wrong = workloads::check(&self.objects, &object, false);
            wrong
                .into_iter()
                .for_each(|wrong| self.invariants.violated(wrong));
        }
        (201, self.store(&key, object))
    }

    fn replace(&mut self, writer: &Sender, key: &Key, object: Value) -> (u16, Value) {
        let Some(current) = self.objects.get(key).cloned() else {
            return status(404, "NotFound");
        };
        if self.is_stale(writer, key, &object["metadata"], &current, true) {
            return status(409, "Conflict");
        }
        self.check(writer, key, &current, &object);
        (200, self.store(key, object))
    }

    fn patch(&mut self, writer: &Sender, key: &Key, mut patch: Value, is_strategic: bool) -> (u16, Value) {
        let Some(current) = self.objects.get(key).cloned() else {
            return status(404, "NotFound");
        };
        // The garbage collector and the node lifecycle controller read these before they write. Deployments
        // and ReplicaSets are in the caches of several controllers, each with its own writes.
        let is_read = matches!(&*key.0, "endpointslices" | "endpoints" | "services" | "pods");
        let is_shared = matches!(&*key.0, "deployments" | "replicasets");
        if self.is_stale(writer, key, &patch["metadata"], &current, !is_read && !is_shared) {
            return status(409, "Conflict");
        }
        if let Some(meta) = patch["metadata"].as_object_mut() {
            meta.retain(|field, _| !matches!(field.as_str(), "uid" | "resourceVersion"));
        }
        let object = patched(current.clone(), &patch, is_strategic);
        self.check(writer, key, &current, &object);
        (200, self.store(key, object))
    }

    /// Deletes an object for a controller.
    fn delete_for(&mut self, writer: &Sender, key: &Key, options: &Value) -> (u16, Value) {
        let Some(current) = self.objects.get(key).cloned() else {
            return status(404, "NotFound");
        };
        // The garbage collector reads before it deletes.
        let has_cache = options["propagationPolicy"].is_null() && key.0 != "replicasets";
        if self.is_stale(writer, key, &options["preconditions"], &current, has_cache) {
            return status(409, "Conflict");
        }
        if self.is_strict && key.0 == "pods" {
            let wrong = workloads::check(&self.objects, &current, true);
            wrong
                .into_iter()
                .for_each(|wrong| self.invariants.violated(wrong));
        }
        self.delete(key, options);
        match key.0.as_str() {
            "pods" => (200, self.objects.get(key).cloned().unwrap_or(current)),
            _ => (200, json!({"kind": "Status", "status": "Success"})),
        }
    }

    /// Deletes an object; one with finalizers stays until they are removed.
    pub(crate) fn delete(&mut self, key: &Key, options: &Value) {
        let Some(mut object) = self.objects.get(key).cloned() else {
            return;
        };
        let meta = &mut object["metadata"];
        let finalizers = meta["finalizers"].as_array().cloned().unwrap_or_default();
        let mut finalizers: Vec<Value> = finalizers
            .into_iter()
            .filter(|name| name != "orphan" && name != "foregroundDeletion")
            .collect();
        match options["propagationPolicy"].as_str() {
            Some("Orphan") => finalizers.push("orphan".into()),
            Some("Foreground") => finalizers.push("foregroundDeletion".into()),
            _ => {}
        }
        // Pods on a Node have a grace period, which the agent ends.
        let is_run = key.0 == "pods" && object["spec"]["nodeName"].is_string() && self.ends_pods_late;
        let meta = &mut object["metadata"];
        if finalizers.is_empty() && !is_run {
            return self.remove(key);
        }
        if meta["deletionTimestamp"].is_null() {
            meta["deletionTimestamp"] = "1970-02-11T16:00:00Z".into();
            if !finalizers.is_empty() {
                meta["finalizers"] = finalizers.into();
            }
            self.store(key, object);
        }
    }

    /// Checks the invariants of a controller's write.
    fn check(&mut self, writer: &Sender, key: &Key, before: &Value, after: &Value) {
        if key.0 == "leases" {
            return;
        }
        if plain(before) == plain(after) {
            let subject = format!("{} wrote {key:?} and changed nothing", writer.name);
            self.invariants.violated(subject);
        }
        self.invariants
            .check(&writer.name, key, before, after, &self.objects);
    }

    /// Returns true if a write is based on an outdated version. A controller with a cache must not use a
    /// version from before its own last acknowledged write.
    fn is_stale(
        &mut self,
        writer: &Sender,
        key: &Key,
        meant: &Value,
        current: &Value,
        has_cache: bool,
    ) -> bool {
        let is_other = |field: &str| !meant[field].is_null() && meant[field] != current["metadata"][field];
        let version = version(&json!({"metadata": meant}));
        let own = writer.known;
        if has_cache && version < own && key.0 != "leases" {
            self.invariants.violated(format!(
                "{} wrote {key:?} of {version}, and had written {own} before",
                writer.name
            ));
        }
        is_other("resourceVersion") || is_other("uid")
    }

    /// Stores a new object or a new state of one.
    pub(crate) fn store(&mut self, key: &Key, mut object: Value) -> Value {
        self.revision += 1;
        let before = self.objects.get(key);
        let meta = &mut object["metadata"];
        meta["name"] = key.2.as_str().into();
        if !key.1.is_empty() {
            meta["namespace"] = key.1.as_str().into();
        }
        let uid = before.map(|before| before["metadata"]["uid"].clone());
        meta["uid"] = uid.unwrap_or_else(|| format!("uid-{}", self.revision).into());
        meta["resourceVersion"] = self.revision.to_string().into();
        if matches!(&*key.0, "deployments" | "replicasets") {
            let generation =
                before.map_or(0, |before| before["metadata"]["generation"].as_i64().unwrap_or(0));
            let is_changed = before.is_none_or(|before| before["spec"] != object["spec"]);
            object["metadata"]["generation"] = (generation + i64::from(is_changed)).into();
        }
        let meta = &mut object["metadata"];
        let is_held = meta["finalizers"]
            .as_array()
            .is_some_and(|names| !names.is_empty());
        if !meta["deletionTimestamp"].is_null() && meta["finalizers"].is_array() && !is_held {
            // The last finalizer is removed.
            self.remove(key);
            return object;
        }
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.objects.insert(key.clone(), object.clone());
        self.record_change(kind, key, object.clone());
        object
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        let Some(mut object) = self.objects.remove(key) else {
            return;
        };
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.record_change("DELETED", key, object);
    }

    fn record_change(&mut self, kind: &'static str, key: &Key, object: Value) {
        self.log.push(Change {
            revision: self.revision,
            kind,
            plural: key.0.clone(),
            object,
        });
    }
}

fn is_strategic(request: &Request<Bytes>) -> bool {
    let kind = request.headers().get(http::header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/strategic"))
}

/// Returns plural, namespace and name of a path; the name of a collection is empty.
pub(crate) fn parts(path: &str) -> Key {
    let mut segments = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .skip_while(|segment| !segment.starts_with('v'));
    segments.next();
    let mut segments = segments.map(str::to_owned).peekable();
    let mut namespace = String::new();
    if segments.next_if(|segment| segment == "namespaces").is_some() {
        namespace = segments.next().unwrap_or_default();
    }
    let plural = segments.next().unwrap_or_default();
    (plural, namespace, segments.next().unwrap_or_default())
}

/// Returns the plural of a path.
pub(crate) fn plural_of(path: &str) -> String {
    parts(path).0
}

/// Returns the version of an object as a number.
pub(crate) fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the object without the fields that the server sets.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.retain(|field, _| {
            matches!(
                field.as_str(),
                "labels" | "annotations" | "ownerReferences" | "finalizers"
            )
        });
    }
    object
}

/// Returns an error as the API does.
pub(crate) fn status(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "code": code, "reason": reason, "message": reason}),
    )
}
