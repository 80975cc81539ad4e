//! Construction of a world from JSON trees.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::{World, derived, templates};
use crate::kind::Kind;
use crate::object::Object;

/// Nesting depth of Lists, at most; kubectl writes one level.
const DEPTH_MAX: usize = 8;

/// Objects of a world under construction.
#[derive(Debug, Default)]
pub struct WorldBuilder {
    /// Objects by kind, namespace and name. Of two objects with one name, the later one counts.
    objects: BTreeMap<(Kind, String, String), Object>,
    present: BTreeSet<Kind>,
}

impl WorldBuilder {
    /// Adds the objects of a tree: an object, an array, or a List of any kind, nested. Objects of unknown kinds and objects
    /// without a name are ignored.
    pub fn add(&mut self, tree: Value) {
        self.add_nested(tree, "", "", DEPTH_MAX);
    }

    /// Adds an object of a kind, and shares its tree with the owner. An object without a name is ignored.
    pub fn add_shared(&mut self, kind: Kind, tree: Arc<Value>) {
        self.add_read(Object::read(kind, tree));
    }

    /// Marks a kind as complete: the world has all objects of the kind, even if the cluster has no objects of it.
    pub fn mark_present(&mut self, kind: Kind) {
        self.present.insert(kind);
    }

    /// Returns true if there is an object of a kind, or the kind is marked as complete.
    pub fn has(&self, kind: Kind) -> bool {
        self.present.contains(&kind)
    }

    /// Returns true if there is an object with this name. The namespace of cluster-scoped objects is "".
    pub fn contains(&self, kind: Kind, namespace: &str, name: &str) -> bool {
        let key = (kind, namespace.to_owned(), name.to_owned());
        self.objects.contains_key(&key)
    }

    /// Returns the trees of the objects of a kind.
    pub fn trees(&self, kind: Kind) -> impl Iterator<Item = &Value> {
        let from = (kind, String::new(), String::new());
        let following = self.objects.range(from..);
        following
            .take_while(move |((found, _, _), _)| *found == kind)
            .map(|(_, object)| object.tree())
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns true if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Builds the indexes.
    pub fn build(self) -> World {
        let given = self.objects.len();
        let mut objects: Vec<Object> = self.objects.into_values().collect();
        objects.extend(templates::pods(&objects, &self.present));
        let world = World::new(objects, self.present, given);
        if world.has(Kind::EndpointSlice) {
            return world;
        }
        let derived = derived::slices(&world);
        let World {
            mut objects, present, ..
        } = world;
        objects.extend(derived);
        World::new(objects, present, given)
    }

    /// `kind` and `api_version` are those of the items of a typed List, which need none of their own.
    fn add_nested(&mut self, mut tree: Value, kind: &str, api_version: &str, depth: usize) {
        if depth == 0 {
            return;
        }
        if let Value::Array(items) = tree {
            items
                .into_iter()
                .for_each(|item| self.add_nested(item, kind, api_version, depth - 1));
            return;
        }
        let text = |field: &str, default: &str| tree[field].as_str().unwrap_or(default).to_owned();
        let (kind, api_version) = (text("kind", kind), text("apiVersion", api_version));
        let Some(item_kind) = kind.strip_suffix("List") else {
            return self.add_object(tree, &kind, &api_version);
        };
        let items = tree.get_mut("items").map(Value::take).unwrap_or_default();
        if let Some(kind) = Kind::named(item_kind, &api_version).filter(|_| items.is_array()) {
            self.present.insert(kind);
        }
        // A plain List has the version of its own kind, not that of its items.
        let item_version = if item_kind.is_empty() {
            ""
        } else {
            api_version.as_str()
        };
        self.add_nested(items, item_kind, item_version, depth - 1);
    }

    fn add_object(&mut self, tree: Value, kind: &str, api_version: &str) {
        let Some(kind) = Kind::named(kind, api_version) else {
            return;
        };
        self.add_read(Object::read(kind, tree));
    }

    fn add_read(&mut self, object: Option<Object>) {
        if let Some(object) = object {
            self.present.insert(object.kind);
            let key = (object.kind, object.namespace.clone(), object.name.clone());
            self.objects.insert(key, object);
        }
    }
}
