//! Model of objects that do not change, such as those of files.

use api::object::{EndpointSlice, Node, Pod, Resource, Service};
use explain::{Kind, Options, World, examine_cluster};
use jiff::Timestamp;

use super::findings::Findings;
use super::model::Model;
use super::objects::PodPlace;

/// Namespace of objects without one, as for kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// Returns a model with all rows and findings of the objects, and the number of objects that cannot be read.
pub fn model_of(world: &World, cluster: &str) -> (Model, usize) {
    let mut model = Model::new(cluster, 0);
    let mut unreadable = 0;
    let mut count = |views: usize, kind: Kind| unreadable += world.trees(kind).count() - views;
    let services: Vec<Service> = read(world, Kind::Service);
    count(services.len(), Kind::Service);
    for mut service in services {
        set_namespace(&mut service.metadata.namespace);
        model.put_service(service);
    }
    let slices: Vec<EndpointSlice> = read(world, Kind::EndpointSlice);
    count(slices.len(), Kind::EndpointSlice);
    for mut slice in slices {
        set_namespace(&mut slice.metadata.namespace);
        model.put_slice(slice);
    }
    let nodes: Vec<Node> = read(world, Kind::Node);
    count(nodes.len(), Kind::Node);
    nodes.into_iter().for_each(|node| model.put_node(node));
    let pods: Vec<Pod> = read(world, Kind::Pod);
    count(pods.len(), Kind::Pod);
    for mut pod in pods {
        set_namespace(&mut pod.metadata.namespace);
        model.put_pod(pod.metadata.key(), PodPlace::of(&pod));
    }
    model.set_findings(Findings::of(examine_cluster(world, &Options::default())));
    while model.change(Timestamp::UNIX_EPOCH).is_some() || model.is_marked() {}
    (model, unreadable)
}

fn read<T: Resource>(world: &World, kind: Kind) -> Vec<T> {
    let trees = world.trees(kind);
    trees.filter_map(|tree| T::deserialize(tree).ok()).collect()
}

fn set_namespace(namespace: &mut String) {
    if namespace.is_empty() {
        DEFAULT_NAMESPACE.clone_into(namespace);
    }
}
