//! Tables that the program embeds as text.

use api::schema::schema;

use crate::access::authorization::load_default_roles;

/// Parses the schemas of all kinds and the default roles, unless they are parsed already. Without this call, the first
/// writes of a server wait for that. A process can call it in another thread while it opens the store.
pub fn load_embedded_tables() {
    schema();
    load_default_roles();
}
