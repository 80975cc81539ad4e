//! The drawing as a Mermaid flowchart, which many Markdown viewers render.

use super::picture::{NodeEndpoints, Picture, Section, health, place_title, symbol};
use super::text::{mermaid, shorten};

/// Maximum number of characters of a label.
const LABEL_CHARACTERS_MAX: usize = 120;

/// Returns the flowchart of a picture.
pub fn render(picture: &Picture) -> String {
    let mut chart = String::from("flowchart LR\n");
    for (index, section) in picture.services.iter().enumerate() {
        chart.push_str(&lines_of(index, section));
    }
    if picture.services_omitted > 0 {
        chart.push_str(&format!(
            "  more[\"{} more Services\"]\n",
            picture.services_omitted
        ));
    }
    for (class, colour) in [
        ("error", "#b3261e"),
        ("warning", "#9a6700"),
        ("ok", "#1f7a54"),
        ("idle", "#a9b8c3"),
    ] {
        chart.push_str(&format!("  classDef {class} stroke:{colour},stroke-width:2px\n"));
    }
    chart
}

/// Returns the lines of a Service, with the number `index` in the identifiers.
fn lines_of(index: usize, section: &Section) -> String {
    let shape = &section.row.shape;
    let service = format!("s{index}");
    let title = format!(
        "{} {}/{} · {} of {} ready",
        symbol(shape.health),
        shape.namespace,
        shape.name,
        shape.ready,
        shape.total
    );
    let mut lines = format!(
        "  {service}([\"{}\"]):::{}\n",
        label(&title),
        shape.health.as_str()
    );
    for (number, client) in section.clients.iter().enumerate() {
        let id = format!("{service}c{number}");
        lines.push_str(&format!("  {id}[\"{}\"]\n", label(&client.title)));
        if section.frontends.is_empty() {
            lines.push_str(&format!("  {id} --> {service}\n"));
        }
        for (frontend, (kind, _)) in section.frontends.iter().enumerate() {
            if kind.is_external() == client.is_external {
                lines.push_str(&format!("  {id} --> {service}f{frontend}\n"));
            }
        }
    }
    for (number, (kind, title)) in section.frontends.iter().enumerate() {
        let title = label(&format!("{title} · {}", kind.title()));
        lines.push_str(&format!(
            "  {service}f{number}[\"{title}\"]\n  {service}f{number} --> {service}\n"
        ));
    }
    for (number, place) in section.places.iter().enumerate() {
        let id = format!("{service}n{number}");
        lines.push_str(&lines_of_place(&service, &id, place));
    }
    if section.endpoints_omitted > 0 {
        lines.push_str(&format!(
            "  {service}more[\"{} more endpoints\"]\n  {service} -.-> {service}more\n",
            section.endpoints_omitted
        ));
    }
    lines
}

/// Returns the lines of the endpoints at a place. `id` identifies the place, and `service` the Service.
fn lines_of_place(service: &str, id: &str, place: &NodeEndpoints) -> String {
    let mut lines = format!("  subgraph {id}[\"{}\"]\n", label(&place_title(place)));
    for (endpoint_number, endpoint) in place.endpoints.iter().enumerate() {
        let health = health(endpoint);
        let title = label(&format!(
            "{} {} {}",
            symbol(health),
            endpoint.address,
            endpoint.pod
        ));
        lines.push_str(&format!(
            "    {id}e{endpoint_number}[\"{title}\"]:::{}\n",
            health.as_str()
        ));
    }
    lines.push_str("  end\n");
    for (endpoint_number, endpoint) in place.endpoints.iter().enumerate() {
        let arrow = if endpoint.ready { "-->" } else { "-.->" };
        lines.push_str(&format!("  {service} {arrow} {id}e{endpoint_number}\n"));
    }
    lines
}

fn label(text: &str) -> String {
    mermaid(&shorten(text, LABEL_CHARACTERS_MAX))
}
