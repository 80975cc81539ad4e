//! The drawing as SVG. It has no scripts and no references, so it can be part of any page.

use super::layout::{COLUMN_TITLES, COLUMNS, Form, Layout, Line, Shape, WIDTH, layout};
use super::picture::{Picture, symbol};
use super::text::{shorten, xml};
use crate::view::rows::Health;

/// Width of a character of the smaller font, on average.
const CHARACTER_WIDTH: u32 = 7;
/// Width of a character of the names of Services, on average.
const NAME_CHARACTER_WIDTH: u32 = 10;
/// Class of the names of Services.
const NAME_CLASS: &str = "name";
/// Space between the edge of a box and its text.
const TEXT_INDENT: u32 = 10;

/// Rules of the drawing.
const STYLE: &str = "\
text{font:12px ui-sans-serif,system-ui,'DejaVu Sans',sans-serif;fill:#1d2b36}\
.title{font-size:20px;font-weight:600}.sub{fill:#5b6b78}.head{font-size:11px;fill:#5b6b78;letter-spacing:.06em}\
.name{font-size:14px;font-weight:600}\
rect{stroke-width:1;rx:6}.client{fill:#fff;stroke:#a9b8c3}.frontend{fill:#e8f1f6;stroke:#7fa6ba}\
.service{fill:#fff;stroke-width:2}.node{fill:#eef2f4;stroke:#c4d0d8}.endpoint{fill:#fff}\
.more{fill:none;stroke:#a9b8c3;stroke-dasharray:3 3}\
path{fill:none;stroke-width:1.4;opacity:.75}line{stroke:#dbe3e8}\
.error{stroke:#b3261e}.warning{stroke:#9a6700}.ok{stroke:#1f7a54}.idle{stroke:#a9b8c3}\
.t-error{fill:#b3261e}.t-warning{fill:#9a6700}.t-ok{fill:#1f7a54}.t-idle{fill:#5b6b78}";

/// Returns the drawing of a picture.
pub fn render(picture: &Picture) -> String {
    let layout = layout(picture);
    let height = layout.height;
    let mut parts = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             role=\"img\" aria-label=\"Services of {}\">",
            xml(&shorten(&picture.cluster, 80))
        ),
        format!("<style>{STYLE}</style>"),
        format!("<rect x=\"0\" y=\"0\" width=\"{WIDTH}\" height=\"{height}\" style=\"fill:#f7f9fb;rx:0\"/>"),
    ];
    parts.extend(title(picture));
    for y in &layout.separators {
        let right = WIDTH - COLUMNS[0].0;
        parts.push(format!(
            "<line x1=\"{}\" y1=\"{y}\" x2=\"{right}\" y2=\"{y}\"/>",
            COLUMNS[0].0
        ));
    }
    parts.extend(content(&layout));
    parts.push("</svg>\n".to_owned());
    parts.join("\n")
}

fn title(picture: &Picture) -> Vec<String> {
    let totals = &picture.totals;
    let time = picture
        .time
        .map(|time| format!(" · {time:.0}"))
        .unwrap_or_default();
    let sums = format!(
        "{} Services · {} of {} endpoints ready · {} errors · {} warnings{time}",
        totals.services, totals.endpoints_ready, totals.endpoints, totals.errors, totals.warnings
    );
    let left = COLUMNS[0].0;
    let mut parts = vec![
        format!(
            "<text class=\"title\" x=\"{left}\" y=\"34\">{}</text>",
            xml(&shorten(&picture.cluster, 80))
        ),
        format!("<text class=\"sub\" x=\"{left}\" y=\"55\">{}</text>", xml(&sums)),
    ];
    for ((x, _), title) in COLUMNS.iter().zip(COLUMN_TITLES) {
        parts.push(format!(
            "<text class=\"head\" x=\"{x}\" y=\"80\">{}</text>",
            xml(title)
        ));
    }
    parts
}

/// Frames are behind the lines, and boxes before them.
fn content(layout: &Layout) -> impl Iterator<Item = String> {
    let is_frame = |shape: &&Shape| shape.form == Form::Node;
    let frames = layout.shapes.iter().filter(is_frame).map(rectangle);
    let lines = layout.lines.iter().map(curve);
    let boxes = layout.shapes.iter().filter(move |shape| !is_frame(shape));
    frames.chain(lines).chain(boxes.map(rectangle))
}

fn curve(line: &Line) -> String {
    let ((x1, y1), (x2, y2)) = (line.from, line.to);
    let middle = u32::midpoint(x1, x2);
    format!(
        "<path class=\"{}\" d=\"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}\"/>",
        line.health.as_str()
    )
}

fn rectangle(shape: &Shape) -> String {
    let class = match shape.form {
        Form::Client => "client".to_owned(),
        Form::Frontend => "frontend".to_owned(),
        Form::Service(health) => format!("service {}", health.as_str()),
        Form::Node => "node".to_owned(),
        Form::Endpoint(health) => format!("endpoint {}", health.as_str()),
        Form::More => "more".to_owned(),
    };
    let Shape {
        x, y, width, height, ..
    } = shape;
    let rectangle =
        format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>");
    let texts: String = match shape.form {
        Form::Service(health) => service_texts(shape, health),
        Form::Endpoint(health) => health_mark(shape, health, 17) + &text(shape, "", 0, TEXT_INDENT + 16, 17),
        Form::Node => text(shape, "sub", 0, TEXT_INDENT, 15),
        Form::More => text(shape, "sub", 0, TEXT_INDENT, 17),
        Form::Client | Form::Frontend => text(shape, "", 0, TEXT_INDENT, 17),
    };
    let full = shape.lines.join(" · ");
    format!(
        "<g><title>{}</title>{rectangle}{texts}</g>",
        xml(&shorten(&full, 300))
    )
}

fn service_texts(shape: &Shape, health: Health) -> String {
    health_mark(shape, health, 22)
        + &text(shape, NAME_CLASS, 0, TEXT_INDENT + 16, 22)
        + &text(shape, "sub", 1, TEXT_INDENT + 16, 39)
        + &text(shape, &format!("t-{}", health.as_str()), 2, TEXT_INDENT + 16, 56)
}

fn health_mark(shape: &Shape, health: Health, baseline: u32) -> String {
    format!(
        "<text class=\"t-{}\" x=\"{}\" y=\"{}\">{}</text>",
        health.as_str(),
        shape.x + TEXT_INDENT,
        shape.y + baseline,
        symbol(health)
    )
}

/// Returns a line of text that is not wider than its box.
fn text(shape: &Shape, class: &str, line: usize, indent: u32, baseline: u32) -> String {
    let character_width = if class == NAME_CLASS {
        NAME_CHARACTER_WIDTH
    } else {
        CHARACTER_WIDTH
    };
    let room = (shape.width - indent - TEXT_INDENT / 2) / character_width;
    let content = shape.lines.get(line).map(String::as_str).unwrap_or_default();
    let characters = usize::try_from(room).unwrap_or_default();
    format!(
        "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
        shape.x + indent,
        shape.y + baseline,
        xml(&shorten(content, characters))
    )
}
