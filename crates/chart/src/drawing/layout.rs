//! Places of the boxes and lines of a drawing, in pixels.

use super::picture::{self, NodeEndpoints, Picture, Section};
use crate::view::rows::Health;

/// Width of a drawing.
pub(super) const WIDTH: u32 = 1_180;
/// Height of the title.
const TITLE_HEIGHT: u32 = 92;
/// Left edges and widths of the columns: clients, frontends, Service, endpoints.
pub(super) const COLUMNS: [(u32, u32); 4] = [(24, 172), (232, 290), (562, 228), (828, 328)];
/// Titles of the columns.
pub(super) const COLUMN_TITLES: [&str; 4] =
    ["Clients", "Frontends", "Services", "Endpoints by node and zone"];
/// Height of a box with one line.
const LINE_HEIGHT: u32 = 26;
/// Height of the box of a Service.
const SERVICE_HEIGHT: u32 = 66;
/// Distance between boxes.
const GAP: u32 = 8;
/// Height of the title of a node.
const NODE_TITLE_HEIGHT: u32 = 22;
/// Distance between Services.
const SECTION_GAP: u32 = 26;
/// Space inside of the frame of a node.
const PADDING: u32 = 8;

/// Form of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Client.
    Client,
    /// Frontend.
    Frontend,
    /// Service.
    Service(Health),
    /// Frame around the endpoints of a node.
    Node,
    /// Endpoint.
    Endpoint(Health),
    /// Number of parts that are left out.
    More,
}

/// A box with its texts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// Form.
    pub form: Form,
    /// Left edge.
    pub x: u32,
    /// Upper edge.
    pub y: u32,
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
    /// Lines of text.
    pub lines: Vec<String>,
}

impl Shape {
    /// Returns the middle of the right edge.
    fn right(&self) -> (u32, u32) {
        (self.x + self.width, self.y + self.height / 2)
    }

    /// Returns the middle of the left edge.
    fn left(&self) -> (u32, u32) {
        (self.x, self.y + self.height / 2)
    }
}

/// A line between two boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Begin.
    pub from: (u32, u32),
    /// End.
    pub to: (u32, u32),
    /// Health of the destination.
    pub health: Health,
}

/// Boxes and lines of a drawing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    /// Boxes; frames come before their content.
    pub shapes: Vec<Shape>,
    /// Lines.
    pub lines: Vec<Line>,
    /// Upper edges of the sections, besides the first one.
    pub separators: Vec<u32>,
    /// Height of the drawing.
    pub height: u32,
}

/// Places a picture.
pub(super) fn layout(picture: &Picture) -> Layout {
    let mut layout = Layout::default();
    let mut y = TITLE_HEIGHT;
    for (index, section) in picture.services.iter().enumerate() {
        if index > 0 {
            layout.separators.push(y);
            y += SECTION_GAP / 2;
        }
        y = layout.place_section(section, y) + SECTION_GAP / 2;
    }
    if picture.services_omitted > 0 {
        let text = format!("{} more Services", picture.services_omitted);
        layout.shapes.push(omission(2, y, text));
        y += LINE_HEIGHT + GAP;
    }
    layout.height = y + GAP;
    layout
}

impl Layout {
    /// Places a section below `top`. Returns its lower edge.
    fn place_section(&mut self, section: &Section, top: u32) -> u32 {
        let heights = [
            stack_height(section.clients.len() + usize::from(section.clients_omitted > 0)),
            stack_height(section.frontends.len() + usize::from(section.frontends_omitted > 0)),
            SERVICE_HEIGHT,
            places_height(section),
        ];
        let height = heights.into_iter().max().unwrap_or_default();
        let top_of = |column: usize| top + (height - heights[column]) / 2;
        let service = Shape {
            form: Form::Service(section.row.shape.health),
            x: COLUMNS[2].0,
            y: top_of(2),
            width: COLUMNS[2].1,
            height: SERVICE_HEIGHT,
            lines: service_lines(section),
        };
        let frontends = self.place_frontends(section, top_of(1), &service);
        self.place_clients(section, top_of(0), &frontends, &service);
        self.place_nodes(section, top_of(3), &service);
        self.shapes.push(service);
        top + height
    }

    fn place_frontends(&mut self, section: &Section, top: u32, service: &Shape) -> Vec<(bool, Shape)> {
        let mut placed = Vec::new();
        let mut y = top;
        for (kind, title) in &section.frontends {
            let text = format!("{title}  {}", kind.title());
            let shape = line(Form::Frontend, 1, y, text);
            self.connect(&shape, service, section.row.shape.health);
            placed.push((kind.is_external(), shape));
            y += LINE_HEIGHT + GAP;
        }
        if section.frontends_omitted > 0 {
            let text = format!("{} more", section.frontends_omitted);
            self.shapes.push(omission(1, y, text));
        }
        self.shapes.extend(placed.iter().map(|(_, shape)| shape.clone()));
        placed
    }

    fn place_clients(&mut self, section: &Section, top: u32, frontends: &[(bool, Shape)], service: &Shape) {
        let mut y = top;
        for client in &section.clients {
            let text = match client.connections {
                Some(count) => format!("{}  {count} ↔", client.title),
                None => client.title.clone(),
            };
            let shape = line(Form::Client, 0, y, text);
            let used: Vec<&Shape> = frontends
                .iter()
                .filter(|(is_external, _)| *is_external == client.is_external)
                .map(|(_, shape)| shape)
                .collect();
            for frontend in &used {
                self.connect(&shape, frontend, Health::Idle);
            }
            // Clients of a headless Service connect to its endpoints, which DNS returns.
            if used.is_empty() {
                self.connect(&shape, service, Health::Idle);
            }
            self.shapes.push(shape);
            y += LINE_HEIGHT + GAP;
        }
        if section.clients_omitted > 0 {
            let text = format!("{} more", section.clients_omitted);
            self.shapes.push(omission(0, y, text));
        }
    }

    /// Places the nodes of a section with their endpoints, and the lines from the Service to them.
    fn place_nodes(&mut self, section: &Section, top: u32, service: &Shape) {
        let (x, width) = COLUMNS[3];
        let mut y = top;
        for place in &section.places {
            let frame = Shape {
                form: Form::Node,
                x,
                y,
                width,
                height: place_height(place),
                lines: vec![picture::place_title(place)],
            };
            self.shapes.push(frame);
            y += NODE_TITLE_HEIGHT;
            for endpoint in &place.endpoints {
                let health = picture::health(endpoint);
                let name = endpoint.pod.rsplit('/').next().unwrap_or_default();
                let shape = Shape {
                    x: x + PADDING,
                    width: width - 2 * PADDING,
                    ..line(
                        Form::Endpoint(health),
                        3,
                        y,
                        format!("{}  {name}", endpoint.address),
                    )
                };
                self.connect(service, &shape, health);
                self.shapes.push(shape);
                y += LINE_HEIGHT + GAP / 2;
            }
            y += PADDING + GAP;
        }
        if section.endpoints_omitted > 0 {
            let text = format!("{} more endpoints", section.endpoints_omitted);
            self.shapes.push(omission(3, y, text));
        } else if section.places.is_empty() {
            self.shapes.push(omission(3, y, "no endpoints".to_owned()));
        }
    }

    fn connect(&mut self, from: &Shape, to: &Shape, health: Health) {
        self.lines.push(Line {
            from: from.right(),
            to: to.left(),
            health,
        });
    }
}

fn service_lines(section: &Section) -> Vec<String> {
    let shape = &section.row.shape;
    let kind = if shape.headless {
        "headless"
    } else {
        shape.kind.as_str()
    };
    let [errors, warnings, _] = shape.findings;
    let faults = match (errors, warnings) {
        (0, 0) => String::new(),
        (0, 1) | (1, 0) => " · 1 finding".to_owned(),
        (errors, warnings) => format!(" · {} findings", errors + warnings),
    };
    vec![
        shape.name.clone(),
        format!("{} · {kind}", shape.namespace),
        format!("{} of {} ready{faults}", shape.ready, shape.total),
    ]
}

fn line(form: Form, column: usize, y: u32, text: String) -> Shape {
    let (x, width) = COLUMNS[column];
    Shape {
        form,
        x,
        y,
        width,
        height: LINE_HEIGHT,
        lines: vec![text],
    }
}

fn omission(column: usize, y: u32, text: String) -> Shape {
    line(Form::More, column, y, text)
}

fn stack_height(boxes: usize) -> u32 {
    let boxes = u32::try_from(boxes).unwrap_or(u32::MAX);
    (boxes * (LINE_HEIGHT + GAP)).saturating_sub(GAP)
}

fn place_height(place: &NodeEndpoints) -> u32 {
    let endpoints = u32::try_from(place.endpoints.len()).unwrap_or(u32::MAX);
    NODE_TITLE_HEIGHT + endpoints * (LINE_HEIGHT + GAP / 2) + PADDING - GAP / 2
}

fn places_height(section: &Section) -> u32 {
    let frames: u32 = section
        .places
        .iter()
        .map(|place| place_height(place) + GAP + GAP / 2)
        .sum();
    let has_more = section.endpoints_omitted > 0 || section.places.is_empty();
    frames + u32::from(has_more) * LINE_HEIGHT
}
