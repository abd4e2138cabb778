"""Ask and tell over a finite set of points with a cost; knows neither plans nor hardware."""
