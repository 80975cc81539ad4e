use super::*;

#[test]
fn parses_stat_and_status() {
    let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1234 8192 2 184";
    let status = "Name:\ta\nVmSize:\t    8 kB\nVmRSS:\t    4 kB\n";
    let stat = Stat::parse(stat, status).unwrap();
    assert_eq!((stat.cpu_seconds, stat.start_seconds), (3.0, 12.34));
    assert_eq!((stat.virtual_bytes, stat.resident_bytes), (8192, 4096));
    assert!(Stat::parse("7 (a) S 1", status).is_none());
}
