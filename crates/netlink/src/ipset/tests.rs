use super::*;

const CREATE: u16 = 2;
const ATTR_TYPENAME: u16 = 3;
const ATTR_REVISION: u16 = 4;
const ATTR_FAMILY: u16 = 5;
const ATTR_DATA: u16 = 7;

fn create(sets: &mut IpSets, name: &str) -> io::Result<()> {
    let write = |writer: &mut Writer| {
        writer
            .text(ATTR_SETNAME, name)
            .text(ATTR_TYPENAME, "hash:ip")
            .attribute(ATTR_REVISION, &[0])
            .attribute(ATTR_FAMILY, &[libc::AF_INET as u8]);
        let nothing = writer.nest(ATTR_DATA);
        writer.end(nothing);
    };
    sets.request(CREATE, libc::NLM_F_ACK | libc::NLM_F_CREATE, write, |_| {})
}

#[test]
fn lists_and_deletes_sets() {
    testbed::in_namespace(|| {
        let mut sets = IpSets::open().unwrap();
        if let Err(error) = create(&mut sets, "KUBE-CLUSTER-IP") {
            testbed::skip_inside(&format!("no ipset in this kernel: {error}"));
        }
        create(&mut sets, "other").unwrap();
        let mut names = sets.names().unwrap();
        names.sort();
        assert_eq!(names, ["KUBE-CLUSTER-IP", "other"]);
        sets.destroy("KUBE-CLUSTER-IP").unwrap();
        assert_eq!(sets.names().unwrap(), ["other"]);
        sets.destroy("KUBE-CLUSTER-IP").unwrap();
    });
}
