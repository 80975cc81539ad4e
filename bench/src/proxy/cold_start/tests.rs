//! Virtual servers in the text of the kernel, and the last sync in metrics.

use super::{VirtualServers, count, last_sync};

/// Text of Linux 6.1, with a virtual server of the Service `kubernetes`.
const TABLE: &str = "\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> AC1E000A:192B      Masq    1      0          0
TCP  0A600002:0050 rr
  -> 0A100001:1F90      Masq    1      0          0
  -> 0A100002:1F90      Masq    1      0          0
TCP  0A600003:0050 rr
";

#[test]
fn counts_servers_and_endpoints_at_the_port_of_services() {
    let expected = VirtualServers {
        servers: 2,
        endpoints: 2,
    };
    assert_eq!(count(TABLE), expected);
}

#[test]
fn repeated_server_counts_once() {
    let twice =
        format!("{TABLE}TCP  0A600002:0050 rr\n  -> 0A100002:1F90      Masq    1      0          0\n");
    assert_eq!(count(&twice), count(TABLE));
}

#[test]
fn reads_the_time_of_the_last_sync() {
    let name = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";
    let of_both = |value: &str| {
        format!(
            "HTTP/1.0 200 OK\r\n\r\n# TYPE {name} gauge\n{name}{{ip_family=\"IPv6\"}} 2\n{name}{{ip_family=\"IPv4\"}} {value}\n"
        )
    };
    assert_eq!(last_sync(&of_both("1.5e+09")), Some(1.5e9));
    assert_eq!(last_sync(&of_both("0")), None);
    assert_eq!(last_sync(""), None);
}
