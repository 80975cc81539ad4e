//! The drawing as a graph in the DOT language of Graphviz.

use super::picture::{NodeEndpoints, Picture, Section, place_title, state};
use super::text::{dot, shorten};
use crate::view::rows::Health;

/// Maximum number of characters of a label.
const LABEL_CHARACTERS_MAX: usize = 120;

/// Returns the graph of a picture.
pub fn render(picture: &Picture) -> String {
    let mut graph = format!(
        "digraph chart {{\n  rankdir=LR;\n  label=\"{}\";\n  node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=11];\n",
        label(&picture.cluster)
    );
    for (index, section) in picture.services.iter().enumerate() {
        graph.push_str(&lines_of(index, section));
    }
    if picture.services_omitted > 0 {
        graph.push_str(&format!(
            "  more [label=\"{} more Services\", style=dashed];\n",
            picture.services_omitted
        ));
    }
    graph.push_str("}\n");
    graph
}

/// Returns the lines of a Service, with the number `index` in the identifiers.
fn lines_of(index: usize, section: &Section) -> String {
    let shape = &section.row.shape;
    let service = format!("s{index}");
    let mut lines = format!(
        "  {service} [label=\"{}\\n{} of {} ready\", color=\"{}\", penwidth=2];\n",
        label(&format!("{}/{}", shape.namespace, shape.name)),
        shape.ready,
        shape.total,
        colour(shape.health)
    );
    for (number, client) in section.clients.iter().enumerate() {
        let id = format!("{service}c{number}");
        lines.push_str(&format!("  {id} [label=\"{}\"];\n", label(&client.title)));
        if section.frontends.is_empty() {
            lines.push_str(&format!("  {id} -> {service};\n"));
        }
        for (frontend, (kind, _)) in section.frontends.iter().enumerate() {
            if kind.is_external() == client.is_external {
                lines.push_str(&format!("  {id} -> {service}f{frontend};\n"));
            }
        }
    }
    for (number, (kind, title)) in section.frontends.iter().enumerate() {
        lines.push_str(&format!(
            "  {service}f{number} [label=\"{}\\n{}\", shape=cds];\n  {service}f{number} -> {service};\n",
            label(title),
            kind.title()
        ));
    }
    for (number, place) in section.places.iter().enumerate() {
        let id = format!("{service}n{number}");
        lines.push_str(&lines_of_place(&service, &id, place));
    }
    if section.endpoints_omitted > 0 {
        lines.push_str(&format!(
            "  {service}more [label=\"{} more endpoints\", style=dashed];\n  {service} -> {service}more [style=dashed];\n",
            section.endpoints_omitted
        ));
    }
    lines
}

/// Returns the lines of the endpoints at a place. `id` identifies the place, and `service` the Service.
fn lines_of_place(service: &str, id: &str, place: &NodeEndpoints) -> String {
    let mut lines = format!(
        "  subgraph cluster_{id} {{\n    label=\"{}\";\n",
        label(&place_title(place))
    );
    for (endpoint_number, endpoint) in place.endpoints.iter().enumerate() {
        lines.push_str(&format!(
            "    {id}e{endpoint_number} [label=\"{}\\n{}\", color=\"{}\"];\n",
            label(&endpoint.address),
            label(&endpoint.pod),
            colour(super::picture::health(endpoint))
        ));
    }
    lines.push_str("  }\n");
    for (endpoint_number, endpoint) in place.endpoints.iter().enumerate() {
        let style = if endpoint.ready { "solid" } else { "dashed" };
        lines.push_str(&format!(
            "  {service} -> {id}e{endpoint_number} [style={style}, tooltip=\"{}\"];\n",
            state(endpoint)
        ));
    }
    lines
}

fn label(text: &str) -> String {
    dot(&shorten(text, LABEL_CHARACTERS_MAX))
}

fn colour(health: Health) -> &'static str {
    match health {
        Health::Error => "#b3261e",
        Health::Warning => "#9a6700",
        Health::Ok => "#1f7a54",
        Health::Idle => "#a9b8c3",
    }
}
