//! Devices and limits: what a task may open and how much it may use.
