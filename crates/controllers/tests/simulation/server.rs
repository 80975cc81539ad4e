//! A model of an API server: versions, conflicts, lists and watches as the real one has them, and faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use client::{Body, Client, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

/// Plural, namespace and name.
pub type Key = (String, String, String);
/// All objects.
pub type Objects = BTreeMap<Key, Value>;

/// What goes wrong, each out of 100 times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Requests that are refused with a 500.
    pub refused: u8,
    /// Requests that never arrive.
    pub lost: u8,
    /// Requests whose answer does not come.
    pub unanswered: u8,
    /// Watch events after which the watch ends.
    pub cut: u8,
    /// The longest time for which a watch event waits.
    pub lag: Duration,
    /// The longest time that a request or an answer takes.
    pub latency: Duration,
}

/// Who sends a request, and what he knew then of the object that it is about.
struct Sender {
    name: String,
    known: u64,
}

/// The namespace, name and version of the object that an answer tells of.
type Told = Option<((String, String), u64)>;

/// The server. Clones are the same one.
#[derive(Clone)]
pub struct Server {
    state: Arc<Mutex<State>>,
    /// Told of every change. (A `watch` channel wakes its receivers in random order.)
    changes: Arc<Notify>,
}

struct State {
    revision: u64,
    /// The oldest revision that can be watched from.
    compacted: u64,
    objects: Objects,
    log: Vec<Change>,
    random: fastrand::Rng,
    faults: Faults,
    says_all: bool,
    requests: Vec<String>,
    writes: usize,
    wrong: Vec<String>,
    /// Whether only the holder of the lease may write.
    is_led: bool,
    /// The version of each object that an instance was told as its own last write.
    own: BTreeMap<(String, Key), u64>,
}

#[derive(Clone)]
struct Change {
    revision: u64,
    kind: &'static str,
    plural: String,
    object: Value,
}

impl Server {
    pub fn new(seed: u64, faults: Faults, says_all: bool) -> Self {
        let state = State {
            revision: 1,
            compacted: 0,
            objects: Objects::new(),
            log: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
            faults,
            says_all,
            requests: Vec::new(),
            writes: 0,
            wrong: Vec::new(),
            is_led: false,
            own: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changes: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panicked")
    }

    /// A client as which `who` writes.
    pub fn client(&self, who: &str) -> Client {
        let (server, who) = (self.clone(), who.to_owned());
        let exchange: Exchange = Arc::new(move |request| {
            let (server, who) = (server.clone(), who.clone());
            let (arrives, path) = (server.clone(), request.uri().path().to_owned());
            let writes = request.method() != Method::GET;
            // What has been sent arrives, whether the sender lives or not.
            let sender = Sender {
                known: server.state().known(&who, &path),
                name: who.clone(),
            };
            let answer = tokio::spawn(async move { arrives.answer(&sender, request).await });
            async move {
                let (answer, version) = answer.await.map_err(TransportError::from)??;
                // Only what is still waited for becomes known.
                if let Some((key, version)) = version.filter(|_| writes) {
                    let key = (plural_of(&path), key.0, key.1);
                    server.state().own.insert((who, key), version);
                }
                Ok(answer)
            }
            .boxed()
        });
        Client::in_process(exchange)
    }

    /// Nothing goes wrong from now on.
    pub fn end_faults(&self) {
        self.state().faults = Faults {
            latency: Duration::from_millis(5),
            ..Faults::default()
        };
    }

    /// Only the holder of the lease may write.
    pub fn is_led(&self) {
        self.state().is_led = true;
    }

    /// Forgets the history: watches that broke begin anew.
    pub fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.revision;
    }

    pub fn objects(&self) -> Objects {
        self.state().objects.clone()
    }

    /// Writes of the controllers so far.
    pub fn writes(&self) -> usize {
        self.state().writes
    }

    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// What the server saw that must not be.
    pub fn wrong(&self) -> Vec<String> {
        self.state().wrong.clone()
    }

    /// A user writes or, with `None`, deletes an object.
    pub fn put(&self, plural: &str, name: &str, object: Option<Value>) {
        let namespace = if plural == "nodes" { "" } else { "n" };
        let key = (plural.to_owned(), namespace.to_owned(), name.to_owned());
        let mut state = self.state();
        match object {
            Some(object) => {
                state.store(&key, object);
            }
            None => state.remove(&key),
        }
        drop(state);
        self.changes.notify_waiters();
    }

    async fn answer(
        &self,
        who: &Sender,
        request: Request<Bytes>,
    ) -> Result<(Response<Body>, Told), TransportError> {
        let (faults, dice, pauses) = {
            let mut state = self.state();
            let faults = state.faults;
            let dice = state.random.u8(0..100);
            let pauses = [state.pause(faults.latency), state.pause(faults.latency)];
            (faults, dice, pauses)
        };
        tokio::time::sleep(pauses[0]).await;
        if dice < faults.lost {
            return Err("the request was lost".into());
        }
        if dice < faults.lost + faults.refused {
            return Ok((failure(500, "InternalError"), None));
        }
        if request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"))
        {
            return Ok((self.watch(&request), None));
        }
        let (code, body) = self.state().handle(who, &request);
        self.changes.notify_waiters();
        tokio::time::sleep(pauses[1]).await;
        if dice < faults.lost + faults.refused + faults.unanswered {
            return Err("the answer was lost".into());
        }
        let text = |field: &str| body["metadata"][field].as_str().unwrap_or_default().to_owned();
        let told = (code < 300).then(|| ((text("namespace"), text("name")), version(&body)));
        Ok((json_answer(code, &body), told))
    }

    /// Opens a watch, whose events come in order, late, until it breaks.
    fn watch(&self, request: &Request<Bytes>) -> Response<Body> {
        let query = Query::of(request.uri().query().unwrap_or_default());
        let plural = plural_of(request.uri().path());
        let from: u64 = query.resource_version.parse().unwrap_or(0);
        if from < self.state().compacted {
            return failure(410, "Expired");
        }
        let (sender, receiver) = mpsc::channel::<Result<Frame<Bytes>, TransportError>>(16);
        let server = self.clone();
        tokio::spawn(async move { server.feed(&plural, &query, from, &sender).await });
        let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
            let frame = receiver.recv().await?;
            Some((frame, receiver))
        });
        Response::new(StreamBody::new(stream).boxed_unsync())
    }

    async fn feed(
        &self,
        plural: &str,
        query: &Query,
        mut from: u64,
        sender: &mpsc::Sender<Result<Frame<Bytes>, TransportError>>,
    ) {
        let mut told = 0;
        loop {
            let changed = self.changes.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (changes, pause, is_cut) = {
                let mut state = self.state();
                let news = state.log.get(told..).unwrap_or_default().iter();
                let news = news.filter(|change| change.revision > from && change.plural == plural);
                let changes: Vec<Change> = news.filter(|c| query.selects(&c.object)).cloned().collect();
                told = state.log.len();
                let faults = state.faults;
                let pause = state.pause(faults.lag);
                (changes, pause, state.random.u8(0..100) < faults.cut)
            };
            if !changes.is_empty() {
                tokio::time::sleep(pause).await;
            }
            for change in changes {
                from = change.revision;
                let line = json!({"type": change.kind, "object": change.object});
                let line = Bytes::from(format!("{line}\n"));
                if sender.send(Ok(Frame::data(line))).await.is_err() {
                    return;
                }
            }
            if is_cut {
                return;
            }
            tokio::select! {
                biased;
                () = sender.closed() => return,
                () = changed => {}
            }
        }
    }
}

impl State {
    /// The version of the object at a path that `who` was told as its own last write.
    fn known(&self, who: &str, path: &str) -> u64 {
        self.own.get(&(who.to_owned(), parts(path))).copied().unwrap_or(0)
    }

    /// A random time up to `most`, most often a short one.
    fn pause(&mut self, most: Duration) -> Duration {
        let share = self.random.f64();
        most.mul_f64(share * share * share)
    }

    /// Answers a request other than a watch.
    fn handle(&mut self, who: &Sender, request: &Request<Bytes>) -> (u16, Value) {
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let (plural, namespace, name) = parts(&path);
        let key = (plural.clone(), namespace.clone(), name.clone());
        let line = format!("{} {method} {path} at {}", who.name, self.revision);
        if self.says_all {
            println!("{:?} {line} {body}", tokio::time::Instant::now());
        }
        self.requests.push(line);
        if method == Method::GET && name.is_empty() {
            let query = Query::of(request.uri().query().unwrap_or_default());
            let items = self
                .objects
                .iter()
                .filter(|((p, ..), object)| *p == plural && query.selects(object));
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
            self.check_leader(&who.name, &key);
        }
        let answer = match method {
            Method::POST => self.create(&plural, &namespace, body),
            Method::PUT => self.replace(who, &key, body),
            _ => self.delete(who, &key, &body["preconditions"]),
        };
        if answer.0 < 300 && plural != "leases" {
            self.writes += 1;
        }
        answer
    }

    /// Two instances never both write.
    fn check_leader(&mut self, who: &str, key: &Key) {
        let lease = ("leases".to_owned(), "kube-system".to_owned(), "lock".to_owned());
        let holder = self
            .objects
            .get(&lease)
            .map(|l| l["spec"]["holderIdentity"].clone());
        if self.is_led && holder.as_ref().and_then(Value::as_str) != Some(who) {
            self.wrong
                .push(format!("{who} wrote {key:?} though {holder:?} leads"));
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
        (201, self.store(&key, object))
    }

    fn replace(&mut self, who: &Sender, key: &Key, object: Value) -> (u16, Value) {
        let Some(current) = self.objects.get(key).cloned() else {
            return status(404, "NotFound");
        };
        if self.is_stale(who, key, &object["metadata"], &current) {
            return status(409, "Conflict");
        }
        if plain(&current) == plain(&object) && key.0 != "leases" {
            self.wrong
                .push(format!("{} wrote {key:?} and changed nothing", who.name));
        }
        (200, self.store(key, object))
    }

    fn delete(&mut self, who: &Sender, key: &Key, preconditions: &Value) -> (u16, Value) {
        let Some(current) = self.objects.get(key).cloned() else {
            return status(404, "NotFound");
        };
        if self.is_stale(who, key, preconditions, &current) {
            return status(409, "Conflict");
        }
        self.remove(key);
        (200, json!({"kind": "Status", "status": "Success"}))
    }

    /// Whether a write means another version than there is. Nobody may mean one from before his own last
    /// write that was answered.
    fn is_stale(&mut self, who: &Sender, key: &Key, meant: &Value, current: &Value) -> bool {
        let is_other = |field: &str| !meant[field].is_null() && meant[field] != current["metadata"][field];
        let meant = version(&json!({"metadata": meant}));
        let own = who.known;
        if meant < own && key.0 != "leases" {
            self.wrong.push(format!(
                "{} wrote {key:?} of {meant}, and had written {own} before",
                who.name
            ));
        }
        is_other("resourceVersion") || is_other("uid")
    }

    /// Stores an object, as a new one or another state of one.
    fn store(&mut self, key: &Key, mut object: Value) -> Value {
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
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.objects.insert(key.clone(), object.clone());
        self.tell(kind, key, object.clone());
        object
    }

    fn remove(&mut self, key: &Key) {
        let Some(mut object) = self.objects.remove(key) else {
            return;
        };
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.tell("DELETED", key, object);
    }

    fn tell(&mut self, kind: &'static str, key: &Key, object: Value) {
        self.log.push(Change {
            revision: self.revision,
            kind,
            plural: key.0.clone(),
            object,
        });
    }
}

/// What a list or a watch asks for.
struct Query {
    labels: Vec<(String, String)>,
    resource_version: String,
}

impl Query {
    fn of(text: &str) -> Self {
        let text = text.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
        let value = |name: &str| {
            let found = text
                .split('&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_default().to_owned()
        };
        let selector = value("labelSelector");
        let labels = selector.split(',').filter_map(|label| label.split_once('='));
        Self {
            labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            resource_version: value("resourceVersion"),
        }
    }

    fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels
            .iter()
            .all(|(key, value)| labels[key] == value.as_str())
    }
}

/// Plural, namespace and name of a path; the name is "" for a collection.
fn parts(path: &str) -> Key {
    let mut segments = path
        .split('/')
        .filter(|s| !s.is_empty())
        .skip_while(|s| !s.starts_with('v'));
    segments.next();
    let mut segments = segments.map(str::to_owned).peekable();
    let mut namespace = String::new();
    if segments.next_if(|s| s == "namespaces").is_some() {
        namespace = segments.next().unwrap_or_default();
    }
    let plural = segments.next().unwrap_or_default();
    (plural, namespace, segments.next().unwrap_or_default())
}

fn plural_of(path: &str) -> String {
    parts(path).0
}

fn version(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The object without what the server sets.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.retain(|field, _| matches!(field.as_str(), "labels" | "annotations" | "ownerReferences"));
    }
    object
}

fn status(code: u16, reason: &str) -> (u16, Value) {
    (
        code,
        json!({"kind": "Status", "code": code, "reason": reason, "message": reason}),
    )
}

fn failure(code: u16, reason: &str) -> Response<Body> {
    json_answer(code, &status(code, reason).1)
}

fn json_answer(code: u16, body: &Value) -> Response<Body> {
    let body = Full::new(Bytes::from(body.to_string()));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    Response::builder()
        .status(code)
        .body(body)
        .expect("a valid answer")
}
