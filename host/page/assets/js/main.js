// Which page this is.

({ model: showModels, records: showRecords, diff: showDiff })[page.kind]();
