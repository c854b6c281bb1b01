//! Identity: who is believed to be whom, on sockets, ports and pages.
