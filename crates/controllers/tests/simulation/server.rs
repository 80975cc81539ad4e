//! A model of an API server: versions, conflicts, lists, watches and faults.

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

use crate::patch::patched;
use crate::state::{Change, State, parts, plural_of, status, version};

/// Plural, namespace and name.
pub(crate) type Key = (String, String, String);
/// All objects.
pub(crate) type Objects = BTreeMap<Key, Value>;

/// Probabilities of faults in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Requests that fail with status 500.
    pub refused: u8,
    /// Requests that are lost.
    pub lost: u8,
    /// Requests whose response is lost.
    pub unanswered: u8,
    /// Watch events after which the watch breaks.
    pub cut: u8,
    /// Longest delay of a watch event.
    pub lag: Duration,
    /// Longest latency of a request or response.
    pub latency: Duration,
}

/// The sender of a request and the version of the object that it had read.
pub(crate) struct Sender {
    pub name: String,
    pub known: u64,
}

/// Namespace, name and version of the object in a response.
type Acknowledged = Option<((String, String), u64)>;

/// The server. Clones share its state.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    /// Notified of every change. (A `watch` channel would wake its receivers in random order.)
    changes: Arc<Notify>,
}

impl Server {
    pub(crate) fn new(seed: u64, faults: Faults, logs_requests: bool) -> Self {
        let state = State::new(seed, faults, logs_requests);
        Self {
            state: Arc::new(Mutex::new(state)),
            changes: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("mutex is not poisoned")
    }

    /// Returns a client that writes as `who`.
    pub(crate) fn client(&self, client_name: &str) -> Client {
        let (server, client_name) = (self.clone(), client_name.to_owned());
        let exchange: Exchange = Arc::new(move |request| {
            let (server, client_name) = (server.clone(), client_name.clone());
            let (arrives, path) = (server.clone(), request.uri().path().to_owned());
            // The garbage collector patches without a cache: it reads before it writes.
            let is_collected = matches!(&*plural_of(&path), "endpointslices" | "endpoints" | "services");
            let writes = match *request.method() {
                Method::GET => false,
                Method::PATCH => !is_collected,
                _ => true,
            };
            // A request that was sent arrives even if its sender is killed.
            let sender = Sender {
                known: server.state().known(&client_name, &path),
                name: client_name.clone(),
            };
            let answer = tokio::spawn(async move { arrives.answer(&sender, request).await });
            async move {
                let (answer, version) = answer.await.map_err(TransportError::from)??;
                // A response counts as known only if its sender still waits for it.
                if let Some((key, version)) = version.filter(|_| writes) {
                    let key = (plural_of(&path), key.0, key.1);
                    server.state().own.insert((client_name, key), version);
                }
                Ok(answer)
            }
            .boxed()
        });
        Client::in_process(exchange)
    }

    /// Stops all faults.
    pub(crate) fn end_faults(&self) {
        self.state().faults = Faults {
            latency: Duration::from_millis(5),
            ..Faults::default()
        };
    }

    /// Allows writes only for the holder of the lease.
    pub(crate) fn require_leader(&self) {
        self.state().has_election = true;
    }

    /// Simulates agents, and checks the bounds of rollouts if `is_strict`.
    pub(crate) fn has_workloads(&self, is_strict: bool) {
        let mut state = self.state();
        (state.ends_pods_late, state.is_strict) = (true, is_strict);
    }

    /// Drops the history, so that broken watches start again with a list.
    pub(crate) fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.revision;
    }

    /// Returns an object.
    pub(crate) fn object(&self, plural: &str, name: &str) -> Option<Value> {
        self.state().objects.get(&key(plural, name)).cloned()
    }

    pub(crate) fn objects(&self) -> Objects {
        self.state().objects.clone()
    }

    /// Returns the number of controller writes.
    pub(crate) fn writes(&self) -> usize {
        self.state().writes
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Returns all violations.
    pub(crate) fn wrong(&self) -> Vec<String> {
        self.state().invariants.wrong()
    }

    /// Writes an object as a user or, with `None`, deletes it with its finalizers.
    pub(crate) fn put(&self, plural: &str, name: &str, object: Option<Value>) {
        let key = key(plural, name);
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

    /// Patches an existing object as a user.
    pub(crate) fn patch(&self, plural: &str, name: &str, patch: &Value) {
        let key = key(plural, name);
        let mut state = self.state();
        if let Some(object) = state.objects.get(&key).cloned() {
            state.store(&key, patched(object, patch, true));
        }
        drop(state);
        self.changes.notify_waiters();
    }

    /// Deletes an object as `kubectl delete --cascade` does.
    pub(crate) fn delete(&self, plural: &str, name: &str, propagation: &str) {
        let options = json!({"propagationPolicy": propagation});
        self.state().delete(&key(plural, name), &options);
        self.changes.notify_waiters();
    }

    /// Renews the Lease of a Node.
    pub(crate) fn beat(&self, node: &str, lease: Value) {
        self.state().invariants.beat(node);
        self.put("leases", node, Some(lease));
    }

    async fn answer(
        &self,
        sender: &Sender,
        request: Request<Bytes>,
    ) -> Result<(Response<Body>, Acknowledged), TransportError> {
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
        let (code, body) = self.state().handle(sender, &request);
        self.changes.notify_waiters();
        tokio::time::sleep(pauses[1]).await;
        if dice < faults.lost + faults.refused + faults.unanswered {
            return Err("the answer was lost".into());
        }
        let text = |field: &str| body["metadata"][field].as_str().unwrap_or_default().to_owned();
        let acknowledged = (code < 300).then(|| ((text("namespace"), text("name")), version(&body)));
        Ok((json_answer(code, &body), acknowledged))
    }

    /// Opens a watch whose events arrive in order and delayed, until it breaks.
    fn watch(&self, request: &Request<Bytes>) -> Response<Body> {
        let query = Query::of(request.uri().query().unwrap_or_default());
        let (plural, namespace, _) = parts(request.uri().path());
        let from: u64 = query.resource_version.parse().unwrap_or(0);
        if from < self.state().compacted {
            return failure(410, "Expired");
        }
        let (sender, receiver) = mpsc::channel::<Result<Frame<Bytes>, TransportError>>(16);
        let server = self.clone();
        tokio::spawn(async move { server.feed((&plural, &namespace), &query, from, &sender).await });
        let stream = futures_util::stream::unfold(receiver, |mut receiver| async {
            let frame = receiver.recv().await?;
            Some((frame, receiver))
        });
        Response::new(StreamBody::new(stream).boxed_unsync())
    }

    async fn feed(
        &self,
        (plural, namespace): (&str, &str),
        query: &Query,
        mut from: u64,
        sender: &mpsc::Sender<Result<Frame<Bytes>, TransportError>>,
    ) {
        let mut delivered = 0;
        loop {
            let changed = self.changes.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let (changes, pause, is_cut) = {
                let mut state = self.state();
                let new_changes = state.log.get(delivered..).unwrap_or_default().iter();
                let is_meant = |change: &&Change| {
                    let is_within =
                        namespace.is_empty() || change.object["metadata"]["namespace"] == namespace;
                    change.revision > from && change.plural == plural && is_within
                };
                let new_changes = new_changes.filter(is_meant);
                let changes: Vec<Change> = new_changes
                    .filter(|change| query.selects(&change.object))
                    .cloned()
                    .collect();
                delivered = state.log.len();
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

/// The parameters of a list or watch.
pub(crate) struct Query {
    labels: Vec<(String, String)>,
    fields: Vec<(String, String)>,
    resource_version: String,
}

impl Query {
    pub(crate) fn of(text: &str) -> Self {
        let text = text.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/");
        let value = |name: &str| {
            let found = text
                .split('&')
                .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            found.unwrap_or_default().to_owned()
        };
        let pairs = |selector: String| -> Vec<(String, String)> {
            let pairs = selector.split(',').filter_map(|pair| pair.split_once('='));
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect()
        };
        Self {
            labels: pairs(value("labelSelector")),
            fields: pairs(value("fieldSelector")),
            resource_version: value("resourceVersion"),
        }
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let has = |(key, value): &(String, String)| labels[key] == value.as_str();
        let is = |(path, value): &(String, String)| {
            let found = path.split('.').fold(object, |object, field| &object[field]);
            found == value.as_str()
        };
        self.labels.iter().all(has) && self.fields.iter().all(is)
    }
}

/// Returns the key of an object in the kind's default namespace.
fn key(plural: &str, name: &str) -> Key {
    let namespace = match plural {
        "nodes" | "servicecidrs" | "ipaddresses" => "",
        "leases" => "kube-node-lease",
        _ => "n",
    };
    (plural.to_owned(), namespace.to_owned(), name.to_owned())
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
