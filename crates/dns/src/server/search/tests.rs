use super::*;

fn name(text: &str) -> Name {
    Name::from_text(text).expect("a name")
}

#[test]
fn walks_search_list_like_a_resolver() {
    let list = SearchList::new(vec![name("example.net")]);
    let zone = name("cluster.local");
    let walk = |first: &str| {
        list.candidates_after(&name(first), &zone, b"\x02ns")
            .map(|names| names.collect::<Vec<_>>())
    };
    let expected = [
        Candidate::Cluster(name("Web.other.svc.cluster.local")),
        Candidate::Cluster(name("Web.other.cluster.local")),
        Candidate::OutsideZone(name("Web.other.example.net")),
        Candidate::OutsideZone(name("Web.other")),
    ];
    assert_eq!(walk("Web.other.NS.svc.cluster.local"), Some(expected.to_vec()));
    let absolute = walk("a.b.svc.cluster.local.ns.svc.cluster.local").expect("a list");
    assert_eq!(
        absolute.last(),
        Some(&Candidate::Cluster(name("a.b.svc.cluster.local"))),
        "names of the zone stay in it"
    );
    assert_eq!(
        walk("ns.svc.cluster.local"),
        None,
        "the name has no label before the search domain"
    );
    assert_eq!(walk("web.other.svc.cluster.local"), None, "another namespace");
}
