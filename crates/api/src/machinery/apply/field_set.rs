//! Sets of fields, for ownership and changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Number, Value};

/// Path element: one step to a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathElement {
    /// A field of an object, or a key of a map.
    Field(String),
    /// List item, identified by its key fields, sorted by name.
    Key(Vec<(String, Scalar)>),
    /// Item of a set, identified by its value.
    Value(Scalar),
    /// List item by position. Only clients create such elements.
    Index(i64),
}

/// Value that identifies a list item. The order makes field sets canonical.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(i64),
    Text(String),
    /// Other JSON, as text.
    Other(String),
}

/// A set of fields, as a tree. A node may contain the field itself, fields below it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    pub(super) members: BTreeSet<PathElement>,
    /// Children by element; never empty sets.
    pub(super) children: BTreeMap<PathElement, FieldSet>,
}

impl FieldSet {
    /// Creates a set from paths of field names.
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

    /// Adds the field at `path`. The empty path (the object itself) is not a field.
    pub(super) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Removes the field at a path of field names, and the fields below it.
    pub(super) fn remove_tree(&mut self, path: &[&str]) {
        match path {
            [] => {}
            [last] => {
                let element = PathElement::field(last);
                self.members.remove(&element);
                self.children.remove(&element);
            }
            [first, rest @ ..] => {
                let element = PathElement::field(first);
                if let Some(child) = self.children.get_mut(&element) {
                    child.remove_tree(rest);
                    if child.is_empty() {
                        self.children.remove(&element);
                    }
                }
            }
        }
    }

    /// Adds the fields of `child` under `element`.
    pub(super) fn insert_children(&mut self, element: PathElement, child: FieldSet) {
        if !child.is_empty() {
            self.children.insert(element, child);
        }
    }

    /// Returns the fields of either set.
    pub(super) fn union(mut self, other: &FieldSet) -> FieldSet {
        self.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            let own = self.children.remove(element).unwrap_or_default();
            self.children.insert(element.clone(), own.union(child));
        }
        self
    }

    /// Returns the fields of both sets.
    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut set = FieldSet {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (element, child) in &self.children {
            if let Some(others) = other.children.get(element) {
                set.insert_children(element.clone(), child.intersection(others));
            }
        }
        set
    }

    /// Returns the fields of this set only.
    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut set = FieldSet {
            members: self.members.difference(&other.members).cloned().collect(),
            children: BTreeMap::new(),
        };
        for (element, child) in &self.children {
            let rest = match other.children.get(element) {
                Some(others) => child.difference(others),
                None => child.clone(),
            };
            set.insert_children(element.clone(), rest);
        }
        set
    }

    /// Returns display paths, for example `.spec.ports[port=80,protocol="TCP"].targetPort`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    /// Returns one set for each field, in the order of [`Self::paths`].
    pub(super) fn single_fields(&self) -> Box<dyn Iterator<Item = FieldSet> + '_> {
        let member = |element: &PathElement| FieldSet {
            members: BTreeSet::from([element.clone()]),
            children: BTreeMap::new(),
        };
        let nested = self.children.iter().flat_map(|(element, child)| {
            child.single_fields().map(move |set| FieldSet {
                members: BTreeSet::new(),
                children: BTreeMap::from([(element.clone(), set)]),
            })
        });
        Box::new(self.members.iter().map(member).chain(nested))
    }

    /// Returns the number of fields.
    pub(super) fn len(&self) -> usize {
        let below = self.children.values().map(FieldSet::len);
        self.members.len() + below.sum::<usize>()
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
    /// Returns the bytes of a text; 0 for other values, which are short.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Other(text) => text.len(),
            Self::Null | Self::Bool(_) | Self::Number(_) => 0,
        }
    }

    pub(super) fn of(value: &Value) -> Scalar {
        match value {
            Value::Null => Scalar::Null,
            Value::Bool(flag) => Scalar::Bool(*flag),
            Value::String(text) => Scalar::Text(text.clone()),
            Value::Number(number) => Scalar::of_number(number),
            other => Scalar::Other(other.to_string()),
        }
    }

    /// As upstream, which reads numbers as floats and writes them in the form of Go.
    fn of_number(number: &Number) -> Scalar {
        // Above, floats represent no longer all integers.
        const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
        let Some(float) = number.as_f64() else {
            return Scalar::Other(number.to_string());
        };
        if float.fract() == 0.0 && float.abs() <= EXACT_MAX {
            return Scalar::Number(float as i64);
        }
        if (1e-6..1e21).contains(&float.abs()) {
            return Scalar::Other(float.to_string());
        }
        let text = format!("{float:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        Scalar::Other(format!("{digits}e{sign}{exponent:0>2}"))
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let separator = if index > 0 { "," } else { "" };
                    write!(f, "{separator}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Formats the value as JSON.
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
