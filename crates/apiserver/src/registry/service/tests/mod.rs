mod allocating;
mod bootstrapping;
mod recorded;
mod server;
