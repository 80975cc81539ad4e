use std::process::Command;

use super::*;
use crate::message::Writer;
use crate::route::{LinkChange, LinkName};

fn net(text: &str) -> IpNet {
    text.parse().expect("a range")
}

fn ip(arguments: &[&str]) {
    let output = match Command::new("ip").args(arguments).output() {
        Ok(output) => output,
        Err(error) => testbed::skip_inside(&format!("no ip program: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
}

#[test]
fn routes_of_all_types_are_listed() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a connection");
        let (near, far): (LinkName, LinkName) = ("near".parse().unwrap(), "far".parse().unwrap());
        connection.add_veth(&near, &far, None).expect("a veth pair");
        let link = connection.link_index(&near).expect("an index");
        connection.change_link(link, &LinkChange::up()).expect("a link");
        connection
            .add_address(link, net("192.0.2.1/24"))
            .expect("an address");
        ip(&["route", "add", "blackhole", "10.1.0.0/16"]);
        ip(&["route", "add", "prohibit", "10.2.0.0/16", "metric", "7"]);
        ip(&["route", "add", "throw", "10.3.0.0/16"]);
        ip(&[
            "route",
            "add",
            "10.4.0.0/16",
            "proto",
            "bird",
            "nexthop",
            "via",
            "192.0.2.2",
            "nexthop",
            "via",
            "192.0.2.3",
        ]);
        ip(&["route", "add", "blackhole", "10.5.0.0/16", "table", "300"]);
        let (routes, has_more) = connection.listed_routes(100).expect("routes");
        assert!(!has_more);
        let to = |destination: &str| -> Vec<&ListedRoute> {
            let found = routes
                .iter()
                .filter(|route| route.destination == net(destination));
            found.collect()
        };
        assert_eq!(to("10.1.0.0/16")[0].kind_name(), "blackhole");
        let prohibit = to("10.2.0.0/16")[0];
        assert_eq!(
            (prohibit.kind_name().as_str(), prohibit.metric),
            ("prohibit", Some(7))
        );
        assert_eq!(to("10.3.0.0/16")[0].kind_name(), "throw");
        let gateways: Vec<_> = to("10.4.0.0/16").iter().map(|route| route.gateway).collect();
        assert_eq!(
            gateways,
            [
                Some("192.0.2.2".parse().unwrap()),
                Some("192.0.2.3".parse().unwrap())
            ]
        );
        assert_eq!(to("10.4.0.0/16")[0].protocol_name(), "bird");
        assert_eq!(to("10.4.0.0/16")[1].link, Some(link));
        assert!(to("10.5.0.0/16").is_empty(), "a route of another table");
        assert_eq!(to("192.0.2.0/24")[0].protocol_name(), "kernel");
        let (routes, has_more) = connection.listed_routes(1).expect("routes");
        assert_eq!((routes.len(), has_more), (1, true));
    });
}

#[test]
fn hostile_next_hops_decode_without_panic() {
    let mut writer = Writer::default();
    writer.begin(0, 0, 1);
    let mut fixed = [0; FIXED_BYTES];
    fixed[0] = libc::AF_INET as u8;
    fixed[4] = libc::RT_TABLE_MAIN;
    writer.fixed(&fixed);
    // A next hop of length zero would repeat forever.
    writer.attribute(libc::RTA_MULTIPATH, &[0; 16]);
    let bytes = writer.finish().to_vec();
    let payload = bytes.get(16..).expect("a payload");
    assert_eq!(parse(payload).expect("a route").len(), 1);
    for length in 0..payload.len() {
        parse(payload.get(..length).unwrap_or_default());
    }
    let endless = [8_u16.to_ne_bytes(), [0; 2], [1, 0], [0; 2]]
        .concat()
        .repeat(1_000);
    assert_eq!(next_hops(&endless).len(), NEXT_HOPS_MAX);
}
