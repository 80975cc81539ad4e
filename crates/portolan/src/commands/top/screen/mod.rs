//! The screen of `portolan top --watch`: sorted tables, a filter, and drill-down into endpoints and clients.
//!
//! [`Screen`] is the state: it uses neither terminal nor clock. [`draw`] shows it, [`run`] connects it with the
//! terminal.

mod draw;

use std::io;
use std::time::Duration;

use api::object::ObjectKey;
use explain::traffic::{ClusterTraffic, ServiceRow};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::table::{SortKey, Table, sorted_services};
use crate::traffic::watcher::{TrafficReading, Watcher};

/// Time between two checks for new traffic.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// Maximum number of characters of a filter: a namespace and a name.
const FILTER_CHARACTERS_MAX: usize = 128;
/// Rows that a page key moves.
const PAGE_ROWS: usize = 10;

/// Kind of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Services.
    Services,
    /// Endpoints of one or all Services.
    Endpoints,
    /// Clients of one or all Services.
    Clients,
}

/// Result of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The screen continues.
    Continue,
    /// The user ends the command.
    Quit,
}

/// State of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    view: View,
    /// View that is the first one: `Esc` does not leave it.
    first_view: View,
    /// Service of the endpoints or clients; `None` for all.
    service: Option<ObjectKey>,
    first_service: Option<ObjectKey>,
    sort: SortKey,
    filter: String,
    is_filtering: bool,
    is_paused: bool,
    selected: usize,
    traffic: Option<ClusterTraffic>,
    /// Failure of the last interval.
    error: Option<String>,
}

impl Screen {
    /// Returns a screen without traffic. `service` limits endpoints and clients.
    pub(super) fn new(view: View, service: Option<ObjectKey>, sort: SortKey) -> Self {
        Self {
            view,
            first_view: view,
            first_service: service.clone(),
            service,
            sort,
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            selected: 0,
            traffic: None,
            error: None,
        }
    }

    /// Shows new traffic. While the screen is paused, the previous traffic stays.
    pub(super) fn update(&mut self, reading: TrafficReading) {
        if self.is_paused {
            return;
        }
        match reading {
            Ok(traffic) => {
                self.traffic = Some(traffic);
                self.error = None;
            }
            Err(error) => self.error = Some(error),
        }
        self.clamp();
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        if is_interrupt {
            return Action::Quit;
        }
        if self.is_filtering {
            self.filter_key(key.code);
        } else {
            match key.code {
                KeyCode::Char('q') => return Action::Quit,
                KeyCode::Char('c') => self.sort = SortKey::Connections,
                KeyCode::Char('r') => self.sort = SortKey::Rate,
                KeyCode::Char('b') => self.sort = SortKey::Bytes,
                KeyCode::Char('f') => self.sort = SortKey::Failed,
                KeyCode::Char('n') => self.sort = SortKey::Name,
                KeyCode::Char('p') => self.is_paused = !self.is_paused,
                KeyCode::Char('/') => self.is_filtering = true,
                KeyCode::Enter => self.enter(),
                KeyCode::Tab => self.switch(),
                KeyCode::Esc | KeyCode::Backspace => self.leave(),
                KeyCode::Down | KeyCode::Char('j') => self.selected = self.selected.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
                KeyCode::PageDown => self.selected = self.selected.saturating_add(PAGE_ROWS),
                KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE_ROWS),
                KeyCode::Home => self.selected = 0,
                KeyCode::End => self.selected = usize::MAX,
                _ => {}
            }
        }
        self.clamp();
        Action::Continue
    }

    fn filter_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(character)
                if !character.is_control() && self.filter.chars().count() < FILTER_CHARACTERS_MAX =>
            {
                self.filter.push(character);
            }
            _ => {}
        }
    }

    /// Shows the endpoints of the selected Service.
    fn enter(&mut self) {
        if self.view != View::Services {
            return;
        }
        let table = self.table();
        let Some([namespace, name, ..]) = table.rows.get(self.selected).map(Vec::as_slice) else {
            return;
        };
        self.service = Some(ObjectKey::new(namespace, name));
        self.view = View::Endpoints;
        self.filter.clear();
        self.selected = 0;
    }

    /// Switches between endpoints and clients.
    fn switch(&mut self) {
        self.view = match self.view {
            View::Services => return,
            View::Endpoints => View::Clients,
            View::Clients => View::Endpoints,
        };
        self.selected = 0;
    }

    /// Clears the filter, or else returns to the first view.
    fn leave(&mut self) {
        if !self.filter.is_empty() {
            self.filter.clear();
        } else if self.first_view == View::Services {
            self.view = View::Services;
            self.service.clone_from(&self.first_service);
        }
        self.selected = 0;
    }

    fn clamp(&mut self) {
        self.selected = self.selected.min(self.table().rows.len().saturating_sub(1));
    }

    /// Returns the rows of the view.
    fn table(&self) -> Table {
        let Some(traffic) = &self.traffic else {
            return Table::default();
        };
        let services = || -> Vec<&ServiceRow> {
            let mut services = sorted_services(traffic, self.sort);
            services.retain(|service| {
                let is_shown =
                    |key: &ObjectKey| *key.namespace == *service.namespace && *key.name == *service.name;
                self.service.as_ref().is_none_or(is_shown)
            });
            services
        };
        let mut table = match self.view {
            View::Services => Table::of_services(traffic, self.sort, false),
            View::Endpoints => Table::of_endpoints(&services(), self.sort),
            View::Clients => Table::of_clients(&services(), self.sort),
        };
        table.filter(&self.filter);
        table
    }
}

/// Shows traffic until the user quits. The terminal is restored at the end, also after a panic.
///
/// # Errors
///
/// The error of the terminal.
pub(super) fn run(mut screen: Screen, watcher: &Watcher) -> io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result = (|| {
        loop {
            terminal.draw(|frame| draw::draw(&screen, frame))?;
            if event::poll(POLL_PERIOD)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && screen.key(key) == Action::Quit
            {
                return Ok(());
            }
            if let Some(reading) = watcher.newest() {
                screen.update(reading);
            }
        }
    })();
    let restored = ratatui::try_restore();
    result.and(restored)
}

#[cfg(test)]
mod tests;
