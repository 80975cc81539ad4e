//! Drawing of the screen of `portolan top --watch`: title, table and footer.

use explain::traffic::ClusterTraffic;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table as TableWidget, TableState};

use super::{Screen, View};
use crate::commands::top::notes::notes;
use crate::commands::top::table::Table;
use crate::commands::top::units::{byte_rate_text, rate_text};
use crate::output::printable;

/// Spaces between two columns.
const COLUMN_SPACING: u16 = 2;
/// Lines with notes, at most, so that rows remain visible.
const NOTES_SHOWN: usize = 3;

/// Draws the screen. Texts of objects contain no control characters in the result.
pub(super) fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    let mut warnings = screen.traffic.as_ref().map(notes).unwrap_or_default();
    warnings.truncate(NOTES_SHOWN);
    if let Some(error) = &screen.error {
        warnings.insert(0, format!("no traffic: {}", printable(error)));
    }
    let warning_lines = u16::try_from(warnings.len()).unwrap_or(0);
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(warning_lines),
        Constraint::Min(2),
        Constraint::Length(1),
    ]);
    let [head, notes_area, body, foot] = areas.areas(frame.area());
    frame.render_widget(Paragraph::new(title_line(screen)).style(bold()), head);
    let lines: Vec<Line<'_>> = warnings.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines), notes_area);
    draw_table(screen, frame, body);
    frame.render_widget(Paragraph::new(footer(screen)).style(dim()), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn title_line(screen: &Screen) -> String {
    let subject = match (screen.view, &screen.service) {
        (View::Services, _) => "Services".to_owned(),
        (View::Endpoints, None) => "Endpoints".to_owned(),
        (View::Clients, None) => "Clients".to_owned(),
        (View::Endpoints, Some(service)) => format!("Endpoints of {}", printable(&service.to_string())),
        (View::Clients, Some(service)) => format!("Clients of {}", printable(&service.to_string())),
    };
    let paused = if screen.is_paused { "  paused" } else { "" };
    let totals = match &screen.traffic {
        Some(traffic) => totals(traffic),
        None => "waiting for the first interval".to_owned(),
    };
    format!("{subject} by {}{paused}  {totals}", screen.sort.name())
}

/// Returns the sums of the Services, and the number of nodes that report.
fn totals(traffic: &ClusterTraffic) -> String {
    let totals = traffic.totals();
    let reporting = traffic.nodes.iter().filter(|node| node.error.is_none()).count();
    format!(
        "{} connections  {} new  {}  {} failed  nodes {reporting}/{}",
        totals.connections,
        rate_text(totals.connections_per_second),
        byte_rate_text(totals.bytes_per_second()),
        totals.failed,
        traffic.nodes.len()
    )
}

fn footer(screen: &Screen) -> String {
    if screen.is_filtering {
        return format!("filter: {}_  Enter keep  Esc clear", screen.filter);
    }
    let filter = match screen.filter.as_str() {
        "" => String::new(),
        filter => format!("filter: {filter}  "),
    };
    let keys = match screen.view {
        View::Services => "Enter endpoints and clients",
        View::Endpoints => "Tab clients  Esc back",
        View::Clients => "Tab endpoints  Esc back",
    };
    format!("{filter}{keys}  sort: c r b f n  / filter  p pause  q quit")
}

fn draw_table(screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let table = screen.table();
    let aligned = |column: usize, text: &str| {
        let alignment = if table.is_number(column) {
            Alignment::Right
        } else {
            Alignment::Left
        };
        Cell::from(Line::from(text.to_owned()).alignment(alignment))
    };
    let widths = fitting_columns(widths(&table), area.width);
    let cells = |row: &[String]| -> Vec<Cell<'static>> {
        let shown = row.iter().take(widths.len());
        shown
            .enumerate()
            .map(|(column, cell)| aligned(column, cell))
            .collect()
    };
    let titles: Vec<String> = table.titles.iter().map(|title| (*title).to_owned()).collect();
    // Only the rows around the selection are built: a cluster has thousands.
    let visible = usize::from(area.height.saturating_sub(1)).max(1);
    let first = screen.selected.saturating_sub(visible.saturating_sub(1));
    let shown = table.rows.iter().skip(first).take(visible);
    let rows: Vec<Row<'_>> = shown.map(|row| Row::new(cells(row))).collect();
    let lengths = widths.iter().map(|width| Constraint::Length(*width));
    let widget = TableWidget::new(rows, lengths)
        .header(Row::new(cells(&titles)).style(bold()))
        .column_spacing(COLUMN_SPACING)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new();
    if !table.rows.is_empty() {
        state.select(Some(screen.selected.saturating_sub(first)));
    }
    frame.render_stateful_widget(widget, area, &mut state);
}

/// Returns the widths of the columns: those of the longest cells.
fn widths(table: &Table) -> Vec<u16> {
    let mut widths: Vec<usize> = table.titles.iter().map(|title| title.len()).collect();
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let lengths = widths.into_iter();
    lengths
        .map(|width| u16::try_from(width).unwrap_or(u16::MAX))
        .collect()
}

/// Returns the first columns that fit into a width, and at least one.
fn fitting_columns(mut widths: Vec<u16>, width: u16) -> Vec<u16> {
    let mut used = 0_u16;
    let mut columns = 0;
    for column in &widths {
        used = used.saturating_add(*column);
        if used > width && columns > 0 {
            break;
        }
        columns += 1;
        used = used.saturating_add(COLUMN_SPACING);
    }
    widths.truncate(columns);
    widths
}
