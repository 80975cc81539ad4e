//! The index against its model, and the bounds of its history.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

mod model;

use model::{Model, value};

const KEYS: [&str; 7] = ["/a/x/1", "/a/x/2", "/a/y/1", "/ab/x", "/b/x/1", "/b/x/11", "/c"];
const PREFIXES: [&str; 8] = ["", "/", "/a", "/a/", "/a/x/", "/b/x/1", "/c", "/nothing/"];

/// An operation on the index and the model; numbers stand for keys, prefixes and revisions.
#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<(usize, Option<u8>, Option<u8>)>),
    Compact(u8),
    Get(usize, u8),
    List {
        prefix: usize,
        at: Option<u8>,
        after: Option<usize>,
        limit: Option<usize>,
        step_keys: usize,
    },
    Watch(usize, u8),
    Drain(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let change = (
        0..KEYS.len(),
        option::weighted(0.7, any::<u8>()),
        option::of(any::<u8>()),
    );
    let list = (
        0..PREFIXES.len(),
        option::of(any::<u8>()),
        option::of(0..KEYS.len()),
        option::of(0..5usize),
        1..4usize,
    );
    prop_oneof![
        6 => vec(change, 1..4).prop_map(Step::Commit),
        1 => any::<u8>().prop_map(Step::Compact),
        3 => (0..KEYS.len(), any::<u8>()).prop_map(|(key, at)| Step::Get(key, at)),
        3 => list.prop_map(|(prefix, at, after, limit, step_keys)| Step::List { prefix, at, after, limit, step_keys }),
        2 => (0..PREFIXES.len(), any::<u8>()).prop_map(|(prefix, after)| Step::Watch(prefix, after)),
        4 => any::<usize>().prop_map(Step::Drain),
    ]
}

/// Index and model, with the open watches and the events that they have read.
struct Pair {
    index: Index,
    model: Model,
    watches: Vec<(&'static str, Revision, Watch)>,
}

impl Pair {
    fn new(events_max: usize) -> Pair {
        let limits = HistoryLimits {
            events_max,
            ..HistoryLimits::default()
        };
        let index = Index::restore(limits, Revision(0), Vec::new());
        Pair {
            index,
            model: Model::new(events_max),
            watches: Vec::new(),
        }
    }

    /// A point between the beginning and just after the end of history.
    fn point(&self, number: u8) -> Revision {
        Revision((self.model.revision().0 + 2) * u64::from(number) / 256)
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Commit(changes) => self.commit(changes),
            Step::Compact(to) => {
                let to = self.point(to);
                let outcome = self.index.compact(to);
                prop_assert_eq!(outcome.is_ok(), to <= self.model.revision());
                if outcome.is_ok() {
                    self.model.compact(to);
                }
            }
            Step::Get(key, at) => self.get(KEYS[key], self.point(at))?,
            Step::List {
                prefix,
                at,
                after,
                limit,
                step_keys,
            } => {
                let at = at.map(|at| self.point(at));
                self.list(PREFIXES[prefix], at, after.map(|key| KEYS[key]), limit, step_keys)?;
            }
            Step::Watch(prefix, after) => self.watch(PREFIXES[prefix], self.point(after))?,
            Step::Drain(number) => self.drain(number)?,
        }
        prop_assert_eq!(self.index.revision(), self.model.revision());
        prop_assert_eq!(self.index.oldest(), self.model.oldest);
        Ok(())
    }

    fn commit(&mut self, changes: Vec<(usize, Option<u8>, Option<u8>)>) {
        let revision = Revision(self.model.revision().0 + 1);
        let mut commit = Commit {
            revision,
            changes: Vec::new(),
        };
        let mut seen = Vec::new();
        for (key, put, last) in changes {
            if seen.contains(&key) {
                continue;
            }
            seen.push(key);
            let name: Key = KEYS[key].into();
            commit.changes.push(match put {
                Some(number) => Change::Put {
                    key: name,
                    value: value(number),
                },
                None => Change::Delete {
                    key: name,
                    last: last.map(value),
                },
            });
        }
        self.index.publish(vec![commit.clone()]).notify();
        self.model.publish(commit);
    }

    fn get(&self, key: &str, at: Revision) -> Result<(), TestCaseError> {
        match self.index.get_at(key, at) {
            Ok(entry) => {
                prop_assert!(self.model.is_readable(at));
                prop_assert_eq!(entry, self.model.get(key, at));
            }
            Err(_) => prop_assert!(!self.model.is_readable(at)),
        }
        prop_assert_eq!(self.index.get(key), self.model.get(key, self.model.revision()));
        Ok(())
    }

    fn list(
        &self,
        prefix: &str,
        at: Option<Revision>,
        after: Option<&str>,
        limit: Option<usize>,
        step_keys: usize,
    ) -> Result<(), TestCaseError> {
        let revision = at.unwrap_or(self.model.revision());
        match self.index.list_by_steps(prefix, at, after, limit, step_keys) {
            Ok(listing) => {
                let expected = self
                    .model
                    .list(prefix, revision, after, limit.unwrap_or(usize::MAX));
                prop_assert_eq!(listing, expected);
            }
            Err(_) => prop_assert!(!self.model.is_readable(revision)),
        }
        Ok(())
    }

    fn watch(&mut self, prefix: &'static str, after: Revision) -> Result<(), TestCaseError> {
        let watch = self.index.watch(prefix, after);
        prop_assert_eq!(watch.is_ok(), self.model.is_readable(after));
        self.watches
            .extend(watch.ok().map(|watch| (prefix, after, watch)));
        Ok(())
    }

    fn drain(&mut self, number: usize) -> Result<(), TestCaseError> {
        let count = self.watches.len().max(1);
        let Some((prefix, read, watch)) = self.watches.get_mut(number % count) else {
            return Ok(());
        };
        let lost = self.model.lag(prefix, *read);
        if lost > 0 {
            let cut = watch.try_next();
            prop_assert!(
                matches!(cut, Err(StoreError::Lagged { lag }) if lag == lost),
                "{:?} for {}",
                cut,
                lost
            );
            return Ok(());
        }
        for expected in self.model.events(prefix, *read) {
            prop_assert!(watch.progress() < expected.revision);
            let event = watch
                .try_next()
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(event.as_deref(), Some(&expected));
        }
        prop_assert!(matches!(watch.try_next(), Ok(None)));
        *read = self.model.revision();
        prop_assert_eq!(watch.progress(), *read);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn index_agrees_with_its_model(steps in vec(step(), 1..60), events_max in 3..40usize) {
        let mut pair = Pair::new(events_max);
        for step in steps {
            pair.take(step)?;
        }
        for number in 0..pair.watches.len() {
            pair.drain(number)?;
        }
    }
}

fn put(revision: u64, key: &str, bytes: usize) -> Commit {
    let change = Change::Put {
        key: key.into(),
        value: Bytes::from(vec![b'x'; bytes]),
    };
    Commit {
        revision: Revision(revision),
        changes: vec![change],
    }
}

#[test]
fn history_is_bounded_in_bytes() {
    let limits = HistoryLimits {
        bytes_max: 10_000,
        ..HistoryLimits::default()
    };
    let index = Index::restore(limits, Revision(0), Vec::new());
    // The current state costs no history: nothing is superseded yet.
    let filling = (1..=10).map(|revision| put(revision, &format!("/a/{revision}"), 5_000));
    index.publish(filling.collect()).notify();
    assert_eq!(index.oldest(), Revision(0));
    // Each of these keeps a value of 5,000 bytes alive; two of them are over the limit.
    index.publish(vec![put(11, "/a/1", 5_000)]).notify();
    assert_eq!(index.oldest(), Revision(0));
    index.publish(vec![put(12, "/a/2", 5_000)]).notify();
    assert_eq!(index.oldest(), Revision(11));
    assert!(index.get_at("/a/1", Revision(10)).is_err());
    assert_eq!(
        index
            .list("/a/", None, None, None)
            .map(|listing| listing.entries.len())
            .ok(),
        Some(10)
    );
}

#[test]
fn removed_key_is_dropped_completely() {
    let index = Index::restore(HistoryLimits::default(), Revision(0), Vec::new());
    index
        .publish(vec![put(1, "/a/1", 10), put(2, "/a/1", 10)])
        .notify();
    let delete = Change::Delete {
        key: "/a/1".into(),
        last: None,
    };
    let deletion = Commit {
        revision: Revision(3),
        changes: vec![delete],
    };
    index.publish(vec![deletion]).notify();
    assert!(!read(&index.state).is_empty());
    assert!(index.compact(Revision(3)).is_ok());
    assert!(read(&index.state).is_empty());
}

#[test]
fn list_during_compaction_reads_present_state() {
    let limits = HistoryLimits {
        events_max: 1,
        ..HistoryLimits::default()
    };
    let entry = |number: usize| {
        let (key, revision) = (format!("/a/{number:06}").into(), Revision(1));
        Entry {
            key,
            value: value(0),
            created: revision,
            modified: revision,
        }
    };
    let index = Index::restore(limits, Revision(1), (0..20_000).map(entry).collect());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for revision in 2..5_000 {
                index.publish(vec![put(revision, "/a/000000", 1)]).notify();
            }
        });
        while !writer.is_finished() {
            let listing = index.list("/a/", None, None, None);
            assert_eq!(listing.map(|listing| listing.entries.len()).ok(), Some(20_000));
        }
    });
}
