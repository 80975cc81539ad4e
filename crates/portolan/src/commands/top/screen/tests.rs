use explain::traffic::{
    ClientTraffic, ClusterTraffic, EndpointTraffic, Names, NodeFlows, ServiceTraffic, TrafficStatistics,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyEvent;

use super::*;

fn service(name: &str, open: u64, opened: u64) -> ServiceTraffic {
    let statistics = TrafficStatistics {
        open,
        opened,
        ..TrafficStatistics::default()
    };
    ServiceTraffic {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        statistics,
        endpoints: vec![EndpointTraffic {
            address: Some("10.244.1.2:8080".parse().expect("an address and port")),
            protocol: api::object::Protocol::Tcp,
            statistics,
        }],
        clients: vec![ClientTraffic {
            address: "203.0.113.9".parse().expect("an address"),
            statistics,
            endpoints: Vec::new(),
        }],
        ..ServiceTraffic::default()
    }
}

fn traffic(services: Vec<ServiceTraffic>) -> ClusterTraffic {
    let report = NodeFlows {
        interval_seconds: 1.0,
        services,
        events: explain::traffic::Events::Complete,
        ..NodeFlows::default()
    };
    let results = vec![
        ("node-a".to_owned(), Ok(report)),
        ("node-b".to_owned(), Err("timeout\u{1b}[2J".to_owned())),
    ];
    ClusterTraffic::merge(results, &Names::default())
}

fn screen() -> Screen {
    let mut screen = Screen::new(View::Services, None, SortKey::Connections);
    let evil = service("evil\u{1b}[2J", 1, 7);
    screen.update(Ok(traffic(vec![
        service("web", 12, 3),
        service("dns", 4, 90),
        evil,
    ])));
    screen
}

fn press(screen: &mut Screen, keys: &[KeyCode]) {
    for key in keys {
        assert_eq!(screen.key(KeyEvent::from(*key)), Action::Continue, "{key:?}");
    }
}

/// Returns the lines of the terminal, without spaces at their ends.
fn lines(screen: &Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw::draw(screen, frame)).expect("a frame");
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content().chunks(usize::from(width));
    rows.map(|row| {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    })
    .collect()
}

/// Returns the texts of the first two columns of the rows.
fn rows(screen: &Screen) -> Vec<String> {
    screen.table().rows.iter().map(|row| row[1].clone()).collect()
}

#[test]
fn screen_without_a_sample_shows_that_it_waits() {
    let lines = lines(&Screen::new(View::Services, None, SortKey::Connections), 60, 5);
    assert_eq!(
        lines[0],
        "Services by connections  waiting for the first interval"
    );
}

#[test]
fn services_are_shown_with_totals_and_notes() {
    let lines = lines(&screen(), 110, 9);
    assert_eq!(
        lines[0],
        "Services by connections  17 connections  100/s new  -  0 failed  nodes 1/2"
    );
    assert_eq!(lines[1], "no report of node node-b: timeout\\u{1b}[2J");
    assert!(
        lines[2].starts_with("bytes are unknown on node node-a: "),
        "{lines:#?}"
    );
    assert!(
        lines[3].starts_with("NAMESPACE  NAME           CONNECTIONS"),
        "{lines:#?}"
    );
    assert!(
        lines[4].starts_with("shop       web                     12"),
        "{lines:#?}"
    );
    assert!(
        lines[6].starts_with("shop       evil\\u{1b}[2J            1"),
        "{lines:#?}"
    );
    assert!(
        lines[8].ends_with("sort: c r b f n  / filter  p pause  q quit"),
        "{lines:#?}"
    );
}

#[test]
fn keys_sort_and_filter() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Char('r')]);
    assert_eq!(rows(&screen), ["dns", "evil\\u{1b}[2J", "web"]);
    press(
        &mut screen,
        &[
            KeyCode::Char('/'),
            KeyCode::Char('W'),
            KeyCode::Char('e'),
            KeyCode::Char('q'),
        ],
    );
    assert_eq!(rows(&screen), [] as [&str; 0], "q is part of the filter");
    press(&mut screen, &[KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!(rows(&screen), ["web"]);
    press(&mut screen, &[KeyCode::Esc]);
    assert_eq!(rows(&screen).len(), 3);
    press(&mut screen, &[KeyCode::Char('/')]);
    for _ in 0..2 * FILTER_CHARACTERS_MAX {
        press(&mut screen, &[KeyCode::Char('x')]);
    }
    assert_eq!(screen.filter.len(), FILTER_CHARACTERS_MAX);
}

#[test]
fn enter_shows_endpoints_and_tab_clients() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Char('n'), KeyCode::End, KeyCode::Enter]);
    let shown = lines(&screen, 110, 9);
    assert!(
        shown[0].starts_with("Endpoints of shop/web by name"),
        "{shown:#?}"
    );
    assert!(shown[4].contains("10.244.1.2:8080/TCP"), "{shown:#?}");
    press(&mut screen, &[KeyCode::Tab]);
    let shown = lines(&screen, 110, 9);
    assert!(shown[0].starts_with("Clients of shop/web by name"), "{shown:#?}");
    assert!(shown[4].contains("203.0.113.9"), "{shown:#?}");
    assert_eq!(rows(&screen).len(), 1, "other Services are hidden");
    press(&mut screen, &[KeyCode::Esc]);
    assert_eq!(rows(&screen).len(), 3);
}

#[test]
fn selection_stays_within_the_rows() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::PageDown, KeyCode::Down]);
    assert_eq!(screen.selected, 2);
    screen.update(Ok(traffic(vec![service("web", 1, 1)])));
    assert_eq!(screen.selected, 0);
    screen.update(Ok(traffic(Vec::new())));
    press(&mut screen, &[KeyCode::Up, KeyCode::Enter, KeyCode::Down]);
    assert_eq!((screen.selected, screen.view), (0, View::Services));
    let many = (0..500)
        .map(|number| service(&format!("service-{number:03}"), 1, 0))
        .collect();
    screen.update(Ok(traffic(many)));
    press(&mut screen, &[KeyCode::End]);
    let shown = lines(&screen, 110, 12);
    assert!(shown[10].contains("service-499"), "{shown:#?}");
}

#[test]
fn pause_keeps_the_traffic_and_failures_are_shown() {
    let mut screen = screen();
    press(&mut screen, &[KeyCode::Char('p')]);
    screen.update(Ok(traffic(Vec::new())));
    assert_eq!(rows(&screen).len(), 3);
    press(&mut screen, &[KeyCode::Char('p')]);
    screen.update(Err("no\u{7} memory".to_owned()));
    assert_eq!(rows(&screen).len(), 3, "the previous interval stays");
    assert_eq!(lines(&screen, 60, 9)[1], "no traffic: no\\u{7} memory");
}

#[test]
fn small_terminals_do_not_panic() {
    for (width, height) in [(1, 1), (5, 2), (20, 3), (200, 1)] {
        assert_eq!(lines(&screen(), width, height).len(), usize::from(height));
    }
}

#[test]
fn quits_by_key() {
    let mut screen = screen();
    assert_eq!(screen.key(KeyEvent::from(KeyCode::Char('q'))), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut screen, &[KeyCode::Char('/')]);
    assert_eq!(screen.key(interrupt), Action::Quit, "also in the filter");
}
