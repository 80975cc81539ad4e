//! Numbers of `linux/netfilter/nfnetlink.h` and `nf_tables.h`, under similar names.

pub(crate) use crate::netfilter::GENERIC_BYTES;

/// `NFPROTO_UNSPEC`: dumps of all families.
pub const NFPROTO_UNSPEC: u8 = 0;
/// `NFPROTO_INET`: family of the tables.
pub const NFPROTO_INET: u8 = 1;
/// `NFPROTO_IPV4`.
pub const NFPROTO_IPV4: u8 = 2;
/// `NFPROTO_IPV6`.
pub const NFPROTO_IPV6: u8 = 10;

/// `NFNL_SUBSYS_NFTABLES`.
pub const SUBSYSTEM: u16 = 10;
pub const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
pub const NFNL_MSG_BATCH_END: u16 = 0x11;
pub const NFNL_BATCH_GENID: u16 = 1;

pub const NEWTABLE: u16 = 0;
pub const GETTABLE: u16 = 1;
pub const DELTABLE: u16 = 2;
pub const NEWCHAIN: u16 = 3;
pub const GETCHAIN: u16 = 4;
pub const DELCHAIN: u16 = 5;
pub const NEWRULE: u16 = 6;
pub const GETRULE: u16 = 7;
pub const DELRULE: u16 = 8;
pub const NEWSET: u16 = 9;
pub const GETSET: u16 = 10;
pub const DELSET: u16 = 11;
pub const NEWSETELEM: u16 = 12;
pub const GETSETELEM: u16 = 13;
pub const DELSETELEM: u16 = 14;
pub const NEWGEN: u16 = 15;
pub const GETGEN: u16 = 16;
pub const TRACE: u16 = 17;

/// Returns the type of an nftables message.
pub const fn kind(message: u16) -> u16 {
    SUBSYSTEM << 8 | message
}

pub const TABLE_NAME: u16 = 1;
pub const TABLE_FLAGS: u16 = 2;
pub const TABLE_USERDATA: u16 = 6;
/// `NFT_TABLE_F_DORMANT`.
pub const TABLE_DORMANT: u32 = 0x1;
/// `NFT_TABLE_F_OWNER`: the kernel deletes the table when the socket that created it is closed.
pub const TABLE_OWNED: u32 = 0x2;
pub const GEN_ID: u16 = 1;

pub const CHAIN_TABLE: u16 = 1;
pub const CHAIN_NAME: u16 = 3;
pub const CHAIN_HOOK: u16 = 4;
pub const CHAIN_POLICY: u16 = 5;
pub const CHAIN_TYPE: u16 = 7;
pub const CHAIN_USERDATA: u16 = 12;
pub const HOOK_NUMBER: u16 = 1;
pub const HOOK_PRIORITY: u16 = 2;

pub const RULE_TABLE: u16 = 1;
pub const RULE_CHAIN: u16 = 2;
pub const RULE_EXPRESSIONS: u16 = 4;
pub const RULE_USERDATA: u16 = 7;

pub const LIST_ELEMENT: u16 = 1;
pub const EXPRESSION_NAME: u16 = 1;
pub const EXPRESSION_DATA: u16 = 2;

pub const SET_TABLE: u16 = 1;
pub const SET_NAME: u16 = 2;
pub const SET_FLAGS: u16 = 3;
pub const SET_KEY_TYPE: u16 = 4;
pub const SET_KEY_LEN: u16 = 5;
pub const SET_DATA_TYPE: u16 = 6;
pub const SET_DATA_LEN: u16 = 7;
pub const SET_DESC: u16 = 9;
pub const SET_ID: u16 = 10;
pub const SET_USERDATA: u16 = 13;
pub const SET_DESC_SIZE: u16 = 1;
pub const SET_DESC_CONCAT: u16 = 2;
pub const SET_FIELD_LEN: u16 = 1;

pub const SET_ANONYMOUS: u32 = 0x1;
pub const SET_INTERVAL: u32 = 0x4;
pub const SET_MAP: u32 = 0x8;
pub const SET_TIMEOUT: u32 = 0x10;
pub const SET_EVAL: u32 = 0x20;
pub const SET_CONCAT: u32 = 0x80;

pub const LIST_TABLE: u16 = 1;
pub const LIST_SET: u16 = 2;
pub const LIST_ELEMENTS: u16 = 3;
pub const ELEM_KEY: u16 = 1;
pub const ELEM_DATA: u16 = 2;
pub const ELEM_FLAGS: u16 = 3;
pub const ELEM_TIMEOUT: u16 = 4;
pub const ELEM_USERDATA: u16 = 6;
pub const ELEM_KEY_END: u16 = 10;
pub const ELEM_INTERVAL_END: u32 = 1;
/// `NFT_SET_ELEM_CATCHALL`.
pub const ELEM_CATCH_ALL: u32 = 2;

pub const DATA_VALUE: u16 = 1;
pub const DATA_VERDICT: u16 = 2;
/// `NFT_DATA_VERDICT`: data type of verdict maps.
pub const DATA_TYPE_VERDICT: u32 = 0xffff_ff00;
pub const VERDICT_CODE: u16 = 1;
pub const VERDICT_CHAIN: u16 = 2;

pub const TRACE_TABLE: u16 = 1;
pub const TRACE_CHAIN: u16 = 2;
pub const TRACE_RULE_HANDLE: u16 = 3;
pub const TRACE_TYPE: u16 = 4;
pub const TRACE_VERDICT: u16 = 5;
pub const TRACE_ID: u16 = 6;
pub const TRACE_POLICY: u16 = 16;
/// `NFT_TRACETYPE_POLICY`, `_RETURN` and `_RULE`.
pub const TRACED_POLICY: u32 = 1;
pub const TRACED_RETURN: u32 = 2;
pub const TRACED_RULE: u32 = 3;
