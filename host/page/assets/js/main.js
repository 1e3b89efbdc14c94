// Draws the page according to its kind.

({ model: showModels, records: showRecords, diff: showDiff })[page.kind]();
