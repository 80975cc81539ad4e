//! Numbers of `linux/netfilter/nfnetlink.h` and `nf_tables.h`, under similar names.

pub(crate) use crate::netfilter::GENERIC_BYTES;

/// `NFPROTO_UNSPEC`: dumps of all families.
pub(super) const NFPROTO_UNSPEC: u8 = 0;
/// `NFPROTO_INET`: family of the tables.
pub(super) const NFPROTO_INET: u8 = 1;
/// `NFPROTO_IPV4`.
pub(super) const NFPROTO_IPV4: u8 = 2;
/// `NFPROTO_IPV6`.
pub(super) const NFPROTO_IPV6: u8 = 10;

/// `NFNL_SUBSYS_NFTABLES`.
pub(super) const SUBSYSTEM: u16 = 10;
pub(super) const NFNL_MSG_BATCH_BEGIN: u16 = 0x10;
pub(super) const NFNL_MSG_BATCH_END: u16 = 0x11;
pub(super) const NFNL_BATCH_GENID: u16 = 1;

pub(super) const NEWTABLE: u16 = 0;
pub(super) const GETTABLE: u16 = 1;
pub(super) const DELTABLE: u16 = 2;
pub(super) const NEWCHAIN: u16 = 3;
pub(super) const GETCHAIN: u16 = 4;
pub(super) const DELCHAIN: u16 = 5;
pub(super) const NEWRULE: u16 = 6;
pub(super) const GETRULE: u16 = 7;
pub(super) const DELRULE: u16 = 8;
pub(super) const NEWSET: u16 = 9;
pub(super) const GETSET: u16 = 10;
pub(super) const DELSET: u16 = 11;
pub(super) const NEWSETELEM: u16 = 12;
pub(super) const GETSETELEM: u16 = 13;
pub(super) const DELSETELEM: u16 = 14;
pub(super) const NEWGEN: u16 = 15;
pub(super) const GETGEN: u16 = 16;
pub(super) const TRACE: u16 = 17;

/// Returns the type of an nftables message.
pub(super) const fn kind(message: u16) -> u16 {
    SUBSYSTEM << 8 | message
}

pub(super) const TABLE_NAME: u16 = 1;
pub(super) const TABLE_FLAGS: u16 = 2;
pub(super) const TABLE_USERDATA: u16 = 6;
/// `NFT_TABLE_F_DORMANT`.
pub(super) const TABLE_DORMANT: u32 = 0x1;
/// `NFT_TABLE_F_OWNER`: the kernel deletes the table when the socket that created it is closed.
pub(super) const TABLE_OWNED: u32 = 0x2;
pub(super) const GEN_ID: u16 = 1;

pub(super) const CHAIN_TABLE: u16 = 1;
pub(super) const CHAIN_NAME: u16 = 3;
pub(super) const CHAIN_HOOK: u16 = 4;
pub(super) const CHAIN_POLICY: u16 = 5;
pub(super) const CHAIN_TYPE: u16 = 7;
pub(super) const CHAIN_USERDATA: u16 = 12;
pub(super) const HOOK_NUMBER: u16 = 1;
pub(super) const HOOK_PRIORITY: u16 = 2;

pub(super) const RULE_TABLE: u16 = 1;
pub(super) const RULE_CHAIN: u16 = 2;
pub(super) const RULE_EXPRESSIONS: u16 = 4;
pub(super) const RULE_USERDATA: u16 = 7;

pub(super) const LIST_ELEMENT: u16 = 1;
pub(super) const EXPRESSION_NAME: u16 = 1;
pub(super) const EXPRESSION_DATA: u16 = 2;

pub(super) const SET_TABLE: u16 = 1;
pub(super) const SET_NAME: u16 = 2;
pub(super) const SET_FLAGS: u16 = 3;
pub(super) const SET_KEY_TYPE: u16 = 4;
pub(super) const SET_KEY_LEN: u16 = 5;
pub(super) const SET_DATA_TYPE: u16 = 6;
pub(super) const SET_DATA_LEN: u16 = 7;
pub(super) const SET_DESC: u16 = 9;
pub(super) const SET_ID: u16 = 10;
pub(super) const SET_USERDATA: u16 = 13;
pub(super) const SET_DESC_SIZE: u16 = 1;
pub(super) const SET_DESC_CONCAT: u16 = 2;
pub(super) const SET_FIELD_LEN: u16 = 1;

pub(super) const SET_ANONYMOUS: u32 = 0x1;
pub(super) const SET_INTERVAL: u32 = 0x4;
pub(super) const SET_MAP: u32 = 0x8;
pub(super) const SET_TIMEOUT: u32 = 0x10;
pub(super) const SET_EVAL: u32 = 0x20;
pub(super) const SET_CONCAT: u32 = 0x80;

pub(super) const LIST_TABLE: u16 = 1;
pub(super) const LIST_SET: u16 = 2;
pub(super) const LIST_ELEMENTS: u16 = 3;
pub(super) const ELEM_KEY: u16 = 1;
pub(super) const ELEM_DATA: u16 = 2;
pub(super) const ELEM_FLAGS: u16 = 3;
pub(super) const ELEM_TIMEOUT: u16 = 4;
pub(super) const ELEM_EXPIRATION: u16 = 5;
pub(super) const ELEM_USERDATA: u16 = 6;
pub(super) const ELEM_KEY_END: u16 = 10;
pub(super) const ELEM_INTERVAL_END: u32 = 1;
/// `NFT_SET_ELEM_CATCHALL`.
pub(super) const ELEM_CATCH_ALL: u32 = 2;

pub(super) const DATA_VALUE: u16 = 1;
pub(super) const DATA_VERDICT: u16 = 2;
/// `NFT_DATA_VERDICT`: data type of verdict maps.
pub(super) const DATA_TYPE_VERDICT: u32 = 0xffff_ff00;
pub(super) const VERDICT_CODE: u16 = 1;
pub(super) const VERDICT_CHAIN: u16 = 2;

pub(super) const TRACE_TABLE: u16 = 1;
pub(super) const TRACE_CHAIN: u16 = 2;
pub(super) const TRACE_RULE_HANDLE: u16 = 3;
pub(super) const TRACE_TYPE: u16 = 4;
pub(super) const TRACE_VERDICT: u16 = 5;
pub(super) const TRACE_ID: u16 = 6;
pub(super) const TRACE_POLICY: u16 = 16;
/// `NFT_TRACETYPE_POLICY`, `_RETURN` and `_RULE`.
pub(super) const TRACED_POLICY: u32 = 1;
pub(super) const TRACED_RETURN: u32 = 2;
pub(super) const TRACED_RULE: u32 = 3;
