//! `report.html` is a summary for people.
