//! Sets of fields: what a manager owns, what a change touches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// One step on the way to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathElement {
    /// A field of an object, or a key of a map.
    Field(String),
    /// The item of a list whose key fields, ordered by name, have these values.
    Key(Vec<(String, Scalar)>),
    /// The item of a set.
    Value(Scalar),
    /// The item at a position. Never made here; clients may name it.
    Index(i64),
}

/// A value that tells items of lists apart; ordered, so that sets of fields have one form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    /// Anything else, as JSON text.
    Other(String),
}

/// A set of fields, as a tree. A field may be in it, or fields below it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    pub(super) members: BTreeSet<PathElement>,
    /// Never an empty set.
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// The set of the fields at these paths of field names.
    pub(super) fn of_names(paths: &[&[&str]]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// Adds the field at `path`; the object itself (the empty path) is no field.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Adds the fields of `child` below `element`.
    pub(super) fn insert_below(&mut self, element: PathElement, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(element, child);
        }
    }

    /// What is in either.
    pub(super) fn union(mut self, other: &FieldSet) -> FieldSet {
        self.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let own = self.children.remove(element).unwrap_or_default();
            self.children.insert(element.clone(), own.union(child));
        }
        self
    }

    /// What is in both.
    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut set = FieldSet {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (element, child) in &self.children {
            if let Some(others) = other.children.get(element) {
                set.insert_below(element.clone(), child.intersection(others));
            }
        }
        set
    }

    /// What is in this one only.
    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut set = FieldSet {
            members: self.members.difference(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (element, child) in &self.children {
            let left = match other.children.get(element) {
                Some(others) => child.difference(others),
                None => child.clone(),
            };
            set.insert_below(element.clone(), left);
        }
        set
    }

    /// The paths as they are shown: `.spec.ports[port=80,protocol="TCP"].targetPort`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    /// Every field of the set in a set of its own, in the order of [`Self::paths`].
    pub(super) fn each(&self) -> Vec<FieldSet> {
        let one = |element: &PathElement| FieldSet {
            members: BTreeSet::from([element.clone()]),
            children: BTreeMap::new(),
        };
        let below = |(element, child): (&PathElement, &FieldSet)| {
            let element = element.clone();
            let wrap = move |set: FieldSet| FieldSet {
                members: BTreeSet::new(),
                children: BTreeMap::from([(element.clone(), set)]),
            };
            child.each().into_iter().map(wrap)
        };
        self.members
            .iter()
            .map(one)
            .chain(self.children.iter().flat_map(below))
            .collect()
    }

    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        paths.extend(self.members.iter().map(|element| format!("{prefix}{element}")));
        for (element, child) in &self.children {
            child.collect_paths(&format!("{prefix}{element}"), paths);
        }
    }
}

impl PathElement {
    pub(super) fn field(name: &str) -> PathElement {
        PathElement::Field(name.to_owned())
    }
}

impl Scalar {
    pub(super) fn of(value: &Value) -> Scalar {
        match value {
            Value::Null => Scalar::Null,
            Value::Bool(flag) => Scalar::Bool(*flag),
            Value::String(text) => Scalar::Text(text.clone()),
            other => match other.as_i64() {
                Some(number) => Scalar::Number(number),
                None => Scalar::Other(other.to_string()),
            },
        }
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// As JSON.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(flag) => write!(f, "{flag}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{}", Value::from(text.as_str())),
            Self::Other(text) => f.write_str(text),
        }
    }
}
