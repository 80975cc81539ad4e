mod allocation;
mod bootstrap;
mod recorded;
mod server;
