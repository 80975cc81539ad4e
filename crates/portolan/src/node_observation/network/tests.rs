use super::*;

#[test]
fn links_have_names_and_addresses() {
    let mut gaps = Gaps::default();
    let network = read(&mut gaps);
    assert_eq!(gaps, Gaps::default());
    let links = network.links.expect("links");
    let loopback = links.iter().find(|link| link.name == "lo").expect("loopback");
    assert_eq!((loopback.kind.as_deref(), loopback.hairpin), (None, None));
    assert!(network.routes.is_some() && network.neighbours.is_some());
    assert!(network.indexes.contains_key("lo"));
}

#[test]
fn states_have_the_names_of_the_kernel() {
    assert_eq!(state_name(libc::NUD_FAILED), "failed");
    assert_eq!(state_name(libc::NUD_PERMANENT), "permanent");
    assert_eq!(state_name(0), "none");
}

#[test]
fn neighbours_of_unknown_links_are_left_out() {
    let neighbour = route::Neighbour {
        link: LinkIndex(7),
        address: "192.0.2.1".parse().expect("an address"),
        ethernet: Some([2, 0, 0, 0, 0, 0xab]),
        state: libc::NUD_STALE,
    };
    assert_eq!(observed_neighbour(&neighbour, &HashMap::new()), None);
    let names = HashMap::from([(LinkIndex(7), "eth0".to_owned())]);
    let observed = observed_neighbour(&neighbour, &names).expect("a neighbour");
    assert_eq!(observed.link_address.as_deref(), Some("02:00:00:00:00:ab"));
    assert_eq!(
        (observed.link.as_str(), observed.state.as_str()),
        ("eth0", "stale")
    );
}
